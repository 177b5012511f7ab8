# SPDX-License-Identifier: Apache-2.0
"""Partitioners divide a network among back ends and host, and lower the result; the eager one.

In:   a module in canonical form, the target.
Out:  a LoweredPartition; and a Choice, of a partitioner that weighs costs.
Next: compiler.py runs one; cost/choice.py has the other, which uses this one for its partitions.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from loadstone.artifact.deploy import Contents
from loadstone.backend.target import Target
from loadstone.partition.eager import Match, Partition, partition
from loadstone.partition.lowering import Clock, LoweredPartition, lower_partition
from loadstone.partition.network_pass import apply_graph_passes
from loadstone.passes.log import PassLog

__all__ = ["Alternative", "Choice", "EagerPartitioner", "Partitioner", "collected_rarely"]

#: So many more objects made than freed, and the youngest are looked through; Python's own is 700.
_COLLECT_AFTER = 1_000_000


@dataclass(frozen=True)
class Alternative:
    """One place for an operator: what it takes there alone, and what bringing its inputs and taking
    its outputs away would add."""

    place: str
    pattern: str
    ns: int
    transfer_ns: int

    def to_json(self) -> dict[str, Any]:
        """In microseconds."""
        return {
            "place": self.place,
            "pattern": self.pattern,
            "us": self.ns / 1000,
            "transfer_us": self.transfer_ns / 1000,
        }


@dataclass(frozen=True)
class Total:
    """What a whole plan takes; transfers_ns: the changes of layout in it."""

    ns: int
    transfers_ns: int


@dataclass(frozen=True, eq=False)
class Choice:
    """chosen: "cost", or "eager" when nothing cheaper was found. totals: of the plans `host` (all
    operators there), `eager` (all on devices that take them) and `chosen`. host: whose costs the
    host's steps have. exact: no cover costs less, as far as costs add up."""

    chosen: str
    lowered: LoweredPartition
    totals: Mapping[str, Total]
    host: str
    exact: bool
    alternatives: Mapping[str, tuple[Alternative, ...]]

    def to_json(self) -> dict[str, Any]:
        """Without the alternatives, in microseconds."""
        return {
            "chosen": self.chosen,
            "host": self.host,
            "plans": {
                name: {"us": total.ns / 1000, "transfers_us": total.transfers_ns / 1000}
                for name, total in self.totals.items()
            },
            "exact": self.exact,
        }


class Partitioner(Protocol):
    """One way to divide one network."""

    @property
    def choice(self) -> Choice | None:
        """What was found out on the way, of a partitioner that goes by cost."""
        ...

    def run(self, clock: Clock) -> LoweredPartition:
        """The network, divided and lowered. clock: counts its stages."""
        ...


class EagerPartitioner:
    """Every operator goes to the first back end that takes it. name: of the model, for messages.
    log: of the passes before. contents: what other entries of the model have brought to the
    artifact; gets this one's."""

    def __init__(
        self,
        module: Any,
        name: str,
        target: Target,
        log: PassLog | None = None,
        contents: Contents | None = None,
    ) -> None:
        self.module = module
        self.name = name
        self.target = target
        self.log = log
        self.contents = contents

    @property
    def choice(self) -> None:
        """Nothing was weighed."""

    def split(self, matches: Sequence[Match] | None = None) -> Partition:
        """The partition by these matches alone, all of them for None; passes of back ends are
        done. Raises UnsupportedError for dynamic shapes."""
        backends = self.target.backends
        divided = partition(self.module, backends, self.name, matches, self.log)
        return apply_graph_passes(divided, backends)

    def run(self, clock: Clock) -> LoweredPartition:
        """Divides and lowers."""
        with collected_rarely():
            with clock("partition"):
                divided = self.split()
            return lower_partition(divided, self.target, clock, self.contents)


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Python looks for unreachable circles less often: lowering makes hundreds of thousands of
    objects that live on and no circles to speak of, and each look goes through all that TVM has
    imported. As it was before, afterwards; never more often."""
    before = gc.get_threshold()
    if before[0]:  # 0: somebody switched it off
        gc.set_threshold(max(before[0], _COLLECT_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
