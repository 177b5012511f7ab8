# SPDX-License-Identifier: Apache-2.0
"""A device program on its way from operations to instructions: what every pass takes and returns.

In:   the operations of a region with their layers' names, and where each DRAM tensor stands.
Out:  VtaProgram, which each pass of pipeline.py replaces by one that holds more; `text()` for
      people.
Next: skip_pads/, store_requantize/, weave.py, store_inp/, prefetch.py, allocate/, encode/ and
      synchronize/, in this order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.asm import text_of
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.instruction_columns import InstructionColumns, PendingInstruction
from loadstone.vta.isa.weight_planes import PackedConstants
from loadstone.vta.schedule.choices import NO_REGION_CHOICE, RegionChoice
from loadstone.vta.stream.operations import Operation, VirtualTile
from loadstone.vta.stream.table import StreamColumns
from loadstone.vta.stream.text import operation_lines

__all__ = [
    "UOP_TENSOR",
    "LayerOperation",
    "ProgramPass",
    "SourceOrder",
    "VtaProgram",
]

#: Name of the micro-op table among the DRAM tensors.
UOP_TENSOR = "micro-ops"

#: The layer's name, and one of its operations.
LayerOperation: TypeAlias = tuple[str, Operation]


@dataclass(frozen=True)
class SourceOrder:
    """Operations in the order in which layers came, as columns too, and int64: the numbers of these
    in a better order."""

    operations: Sequence[LayerOperation]
    columns: StreamColumns
    order: NDArray[np.int64]


@dataclass(frozen=True)
class VtaProgram:
    """What a region computes, as far as the passes have come.

    operations: in the order of execution. choice: what prefetch.py and allocate/ are told.
    columns: of the operations, where they are known (up to prefetch.py).
    source: the operations before weights were loaded early (from prefetch.py on), to which
        allocate/ returns when they leave no room.
    tile_address: of each virtual tile, its first scratchpad tile (from allocate/ on).
    instructions, uops: (M, 3) indices of micro-ops, at UOP_TENSOR (from encode/ on).
    tokens: the most that each queue can hold (from synchronize/ on).
    packed: constants of weights that stand in DRAM as groups of numbers of 4 bits, or as bit
        planes; operations count their tiles as those of others.
    zero_tiles: of constants of weights, which of their tiles hold nothing but zeros.
    inside: DRAM tensors that nobody else reads, before the program or behind it.
    chains: layers that follow each other and take turns (weave.py).
    """

    config: HwConfig
    places: Mapping[str, Address]
    operations: Sequence[LayerOperation]
    columns: StreamColumns | None = None
    source: SourceOrder | None = None
    tile_address: Mapping[VirtualTile, int] | None = None
    loads_dropped: int = 0
    tiles_dropped: int = 0
    instructions: Sequence[PendingInstruction] = ()
    uops: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    tokens: Mapping[str, int] = field(default_factory=dict)
    choice: RegionChoice = NO_REGION_CHOICE
    packed: PackedConstants = field(default_factory=dict)
    zero_tiles: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    inside: frozenset[str] = frozenset()
    chains: Sequence[Sequence[str]] = ()

    def instruction_bytes(self) -> NDArray[np.uint8]:
        """uint8 (N, 16), FINISH last."""
        return encode_stream(InstructionColumns.of(self.instructions).stream(), self.config)

    def uop_words(self) -> NDArray[np.uint32]:
        """uint32 (M,): the micro-op table, to stand at the place of UOP_TENSOR."""
        return encode_uops(self.uops, self.config)

    def source_map(self) -> tuple[tuple[int, int, str], ...]:
        """(first instruction, count, layer), ascending."""
        columns = InstructionColumns.of(self.instructions)
        begins = np.flatnonzero(np.diff(columns.layer, prepend=-1))
        counts = np.diff(begins, append=len(columns))
        layers = [columns.layers[number] for number in columns.layer[begins].tolist()]
        return tuple(zip(begins.tolist(), counts.tolist(), layers, strict=True))

    def text(self) -> str:
        """The program for people: operations, then with scratchpad addresses, then
        instructions."""
        lines = self._instruction_lines() if self.instructions else self._operation_lines()
        return "\n".join(lines) + "\n"

    def _operation_lines(self) -> Iterator[str]:
        yield f"# {len(self.operations)} operations for {self.config.name}"
        if self.tile_address is not None:
            yield f"# {self.loads_dropped} loads left out: their tiles were still there"
        yield from operation_lines(self.operations, self.tile_address)

    def _instruction_lines(self) -> Iterator[str]:
        yield (
            f"# {len(self.instructions)} instructions and {len(self.uops)} micro-ops for "
            f"{self.config.name}"
        )
        if self.tokens:
            most = ", ".join(f"{queue} {count}" for queue, count in self.tokens.items())
            yield f"# tokens at most: {most}"
        last = None
        for pending in self.instructions:
            if pending.layer != last:
                yield f"# layer {pending.layer}"
                last = pending.layer
            yield text_of(pending.insn)
        for number, uop in enumerate(self.uops.tolist()):
            yield f"u{number}: acc[{uop[0]}] [{uop[1]}] [{uop[2]}]"


class ProgramPass(ABC):
    """One step of the pipeline: a name, what it does, and what must hold behind it."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, program: VtaProgram) -> VtaProgram:
        """The program after this pass; the one before is not changed. Raises LoweringError where
        the device cannot do what it holds."""

    @abstractmethod
    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Checks what the pass promises, by other means than those it works with. Raises
        LoweringError."""
