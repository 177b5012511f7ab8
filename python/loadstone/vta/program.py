# SPDX-License-Identifier: Apache-2.0
"""A device program on its way from operations to instructions: what every pass takes and returns.

In:   the operations of a region with their layers' names, and where each DRAM tensor stands.
Out:  VtaProgram, which each pass of pipeline.py replaces by one that holds more; `text()` for
      people.
Next: skip_pads.py, prefetch.py, allocate.py, encode.py and synchronize.py, in this order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.vta.choices import NO_REGION_CHOICE, RegionChoice
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.asm import text_of
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Insn, stage_of
from loadstone.vta.isa.spec import Memory, Stage
from loadstone.vta.stream import Operation, VirtualTile
from loadstone.vta.stream_text import operation_lines

__all__ = [
    "UOP_TENSOR",
    "DramRows",
    "LayerOperation",
    "PendingInstruction",
    "ProgramPass",
    "ScratchRange",
    "VtaProgram",
]

#: Name of the micro-op table among the DRAM tensors.
UOP_TENSOR = "micro-ops"

#: The layer's name, and one of its operations.
LayerOperation: TypeAlias = tuple[str, Operation]


class ScratchRange(NamedTuple):
    """Tiles [first, end) of a scratchpad that an instruction touches; written, or only read."""

    memory: Memory
    first: int
    end: int
    written: bool


class DramRows(NamedTuple):
    """Bytes of DRAM that an instruction touches: `rows` rows of `row_bytes`, `stride_bytes`
    apart."""

    region: int
    start_bytes: int
    rows: int
    row_bytes: int
    stride_bytes: int
    written: bool


@dataclass(slots=True)
class PendingInstruction:
    """An instruction, the layer it belongs to, and what it touches: what orders it against others.

    Its token flags are 0 until synchronize.py sets them. Nobody changes one, which several places
    of a program may share; it is not frozen because it would take three times as long to make.
    """

    insn: Insn
    layer: str
    scratch: tuple[ScratchRange, ...] = ()
    dram: DramRows | None = None
    stage: Stage = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """The queue that executes it, which is asked for many times."""
        self.stage = stage_of(self.insn)

    def with_insn(self, insn: Insn) -> PendingInstruction:
        """The same with another instruction of the same stage, which touches the same."""
        other = object.__new__(PendingInstruction)
        other.insn, other.stage = insn, self.stage
        other.layer, other.scratch, other.dram = self.layer, self.scratch, self.dram
        return other

    @property
    def name(self) -> str:
        """`GEMM of conv2d_3`, for messages."""
        return f"{self.insn.SPEC.name} of {self.layer}"


@dataclass(frozen=True)
class VtaProgram:
    """What a region computes, as far as the passes have come.

    operations: in the order of execution. choice: what prefetch.py and allocate.py are told.
    source_order: the order before weights were loaded early,
        to which allocate.py returns when they leave no room.
    tile_address: of each virtual tile, its first scratchpad tile (from allocate.py on).
    instructions, uops: (M, 3) indices of micro-ops, at UOP_TENSOR (from encode.py on).
    tokens: the most that each queue can hold (from synchronize.py on).
    zero_tiles: of constants of weights, which of their tiles hold nothing but zeros.
    """

    config: HwConfig
    places: Mapping[str, Address]
    operations: Sequence[LayerOperation]
    source_order: Sequence[LayerOperation] = ()
    tile_address: Mapping[VirtualTile, int] | None = None
    loads_dropped: int = 0
    tiles_dropped: int = 0
    instructions: Sequence[PendingInstruction] = ()
    uops: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    tokens: Mapping[str, int] = field(default_factory=dict)
    choice: RegionChoice = NO_REGION_CHOICE
    zero_tiles: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    def instruction_bytes(self) -> NDArray[np.uint8]:
        """uint8 (N, 16), FINISH last."""
        return encode_stream([pending.insn for pending in self.instructions], self.config)

    def uop_words(self) -> NDArray[np.uint32]:
        """uint32 (M,): the micro-op table, to stand at the place of UOP_TENSOR."""
        return encode_uops(self.uops, self.config)

    def source_map(self) -> tuple[tuple[int, int, str], ...]:
        """(first instruction, count, layer), ascending."""
        ranges: list[tuple[int, int, str]] = []
        for number, pending in enumerate(self.instructions):
            if ranges and ranges[-1][2] == pending.layer:
                first, count, layer = ranges[-1]
                ranges[-1] = (first, count + 1, layer)
            else:
                ranges.append((number, 1, pending.layer))
        return tuple(ranges)

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
