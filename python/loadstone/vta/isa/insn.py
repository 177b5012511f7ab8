# SPDX-License-Identifier: Apache-2.0
"""One instruction as an object: `Load(memory_id=Memory.INP, x_size=4, push_next=1)`.

In:   field values; every field is 0 unless it is given.
Out:  frozen objects whose repr evaluates back, and what each asks of a device.
Next: codec.py turns them into bytes, asm.py into text, meaning/reference.py executes them.

The classes repeat the names of spec.py's fields so that editors and type checkers know them; the
last lines of this file see to it that they are the same. What a field means, and its bits, stand in
the spec alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from loadstone.vta.isa.spec import (
    INSTRUCTIONS,
    LOAD_STAGE,
    VALUE_NEEDS,
    AluOp,
    Capability,
    Instruction,
    Memory,
    Opcode,
    Stage,
)

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own from Python 3.11 on

__all__ = [
    "CLASSES",
    "KINDS",
    "Alu",
    "Config",
    "Depthwise",
    "Finish",
    "Gemm",
    "Insn",
    "Load",
    "MicroOp",
    "Store",
    "stage_of",
]

#: Opcode -> what the spec says about it.
KINDS: Mapping[Opcode, Instruction] = {i.opcode: i for i in INSTRUCTIONS}
#: Opcode -> its fields, in the order of the spec, without the opcode.
_FIELD_NAMES = {kind.opcode: tuple(f.name for f in kind.fields[1:]) for kind in INSTRUCTIONS}


@dataclass(frozen=True, kw_only=True, repr=False)
class Insn:
    """What all instructions have: the four token flags."""

    SPEC: ClassVar[Instruction]

    pop_prev: int = 0
    pop_next: int = 0
    push_prev: int = 0
    push_next: int = 0

    def values(self) -> dict[str, int]:
        """Field name -> value, in the order of the spec, without the opcode."""
        held = self.__dict__
        return {name: int(held[name]) for name in _FIELD_NAMES[self.SPEC.opcode]}

    def changed(self, **values: int) -> Self:
        """The same instruction with other values in these fields: as dataclasses.replace, which
        goes through all of them."""
        held = self.__dict__ | values
        if len(held) != len(self.__dict__):
            raise TypeError(f"{type(self).__name__} has not all of the fields {[*values]}")
        other = object.__new__(type(self))
        object.__setattr__(other, "__dict__", held)
        return other

    def needs(self) -> Iterator[tuple[str, Capability]]:
        """What of it needs which capability: ("ALU.alu_op=MUL", Capability.ALU_MUL)."""
        if self.SPEC.needs is not None:
            yield self.SPEC.name, self.SPEC.needs
        for field in self.SPEC.fields[1:]:
            value = int(getattr(self, field.name))
            if field.needs is not None and value:
                yield f"{self.SPEC.name}.{field.name}={value}", Capability(field.needs)
            if field.enum is not None and value in VALUE_NEEDS.get(field.enum, {}):
                yield (
                    f"{self.SPEC.name}.{field.name}={field.enum(value).name}",
                    VALUE_NEEDS[field.enum][value],
                )

    def __repr__(self) -> str:
        """Evaluates back to an equal object; fields that are 0 are left out, enumerated values keep
        their names."""
        shown = []
        for field in self.SPEC.fields[1:]:
            value = int(getattr(self, field.name))
            if field.enum is not None and value in set(field.enum):
                shown.append(f"{field.name}={field.enum.__name__}.{field.enum(value).name}")
            elif value:
                shown.append(f"{field.name}={value}")
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, kw_only=True, repr=False)
class _Transfer(Insn):
    """Fields of LOAD and STORE."""

    memory_id: int = 0
    sram_base: int = 0
    dram_base: int = 0
    region: int = 0
    y_size: int = 0
    x_size: int = 0
    x_stride: int = 0

    @property
    def is_noop(self) -> bool:
        """Whether it moves nothing, and only its tokens count."""
        return self.x_size == 0

    @property
    def dram_rows(self) -> int:
        """Rows of x_size in DRAM; of WGT_PLANES one, the code of y_size tiles."""
        return min(1, self.y_size) if self.memory_id == Memory.WGT_PLANES else self.y_size


@dataclass(frozen=True, kw_only=True, repr=False)
class Load(_Transfer):
    """DRAM -> scratchpad, with padding; executed by the load stage for INP, WGT, WGT_4BIT and
    WGT_PLANES, by compute for the others."""

    SPEC = KINDS[Opcode.LOAD]

    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    def misfit(self) -> str:
        """What it says that its memory has not; "" where there is no such thing."""
        packed = self.memory_id in (Memory.WGT_4BIT, Memory.WGT_PLANES)
        if packed and self.has_pads:
            return f"LOAD of memory {Memory(self.memory_id).name} has no pads: they must be 0"
        if self.memory_id == Memory.WGT_PLANES and self.x_stride:
            return "LOAD of memory WGT_PLANES has one row: x_stride must be 0"
        return ""

    def places(self, fills: int) -> int:
        """Tiles of the scratchpad that it fills, pads included. fills: by one that x_size counts,
        `HwConfig.filled_tiles`."""
        if self.memory_id == Memory.WGT_PLANES:
            return self.y_size
        rows = self.y_pad_0 + self.y_size + self.y_pad_1
        return rows * (self.x_pad_0 + self.x_size + self.x_pad_1) * fills

    @property
    def has_pads(self) -> bool:
        """Whether it says any."""
        return (self.y_pad_0 | self.y_pad_1 | self.x_pad_0 | self.x_pad_1) != 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Store(_Transfer):
    """Accumulator tiles, low 8 bits or requantized -> DRAM, or with memory_id INP that
    scratchpad; with memory_id ACC whole -> DRAM."""

    SPEC = KINDS[Opcode.STORE]

    operands: int = 0
    operand_step: int = 0
    requantize: int = 0

    @property
    def to_inp(self) -> bool:
        """Whether it writes INP, and not DRAM."""
        return self.memory_id == Memory.INP and not self.is_noop

    @property
    def is_whole(self) -> bool:
        """Whether it takes all bits of ACC's lanes, and not the low ones or what RQ makes."""
        return self.memory_id == Memory.ACC and not self.is_noop

    def needs(self) -> Iterator[tuple[str, Capability]]:
        """Those of its fields; and a place in INP needs store_inp, whole lanes store_acc."""
        yield from super().needs()
        if self.to_inp:
            yield "STORE.memory_id=INP", Capability.STORE_INP
        if self.is_whole:
            yield "STORE.memory_id=ACC", Capability.STORE_ACC


@dataclass(frozen=True, kw_only=True, repr=False)
class _Loops(Insn):
    """Fields that GEMM, DEPTHWISE and ALU share: two loops around a range of micro-ops."""

    uop_bgn: int = 0
    uop_end: int = 0
    iter_out: int = 0
    iter_in: int = 0
    dst_out: int = 0
    dst_in: int = 0
    src_out: int = 0
    src_in: int = 0

    @property
    def steps(self) -> int:
        """Turns of the innermost loop."""
        return max(0, self.uop_end - self.uop_bgn) * self.iter_out * self.iter_in


@dataclass(frozen=True, kw_only=True, repr=False)
class Gemm(_Loops):
    """Input tiles by weight tiles into accumulator tiles."""

    SPEC = KINDS[Opcode.GEMM]

    reset: int = 0
    overwrite: int = 0
    wgt_out: int = 0
    wgt_in: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Depthwise(_Loops):
    """Windows of input tiles by the weights of one tile, lane by lane, into accumulator tiles."""

    SPEC = KINDS[Opcode.DEPTHWISE]

    wide: int = 0
    overwrite: int = 0
    wgt_out: int = 0
    rows: int = 0
    columns: int = 0
    row_stride: int = 0

    @property
    def reach(self) -> int:
        """From a window's first tile to its last."""
        return (self.rows - 1) * self.row_stride + self.columns - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Alu(_Loops):
    """A lane-wise operation on accumulator tiles; RQ requantizes."""

    SPEC = KINDS[Opcode.ALU]

    reset: int = 0
    alu_op: int = AluOp.MIN
    use_imm: int = 0
    imm: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Finish(Insn):
    """The end of a program."""

    SPEC = KINDS[Opcode.FINISH]


@dataclass(frozen=True, kw_only=True, repr=False)
class Config(Insn):
    """Sets a register of a stage."""

    SPEC = KINDS[Opcode.CONFIG]

    stage: int = Stage.LOAD
    register_id: int = 0
    value: int = 0


@dataclass(frozen=True)
class MicroOp:
    """One micro-op: tile indices that the loop factors are added to."""

    dst: int = 0
    src: int = 0
    wgt: int = 0


def stage_of(insn: Insn) -> Stage:
    """The queue that executes it."""
    if (fixed := _FIXED_STAGE.get(type(insn))) is not None:
        return fixed
    stage = insn.SPEC.stage
    if isinstance(stage, Stage):
        return stage
    decides = int(getattr(insn, stage))
    if stage == "memory_id":
        found = _LOAD_STAGE.get(decides)
        return LOAD_STAGE[Memory(decides)] if found is None else found
    return Stage(decides)


#: Opcode -> its class.
CLASSES: Mapping[Opcode, type[Insn]] = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.FINISH: Finish,
    Opcode.ALU: Alu,
    Opcode.CONFIG: Config,
    Opcode.DEPTHWISE: Depthwise,
}
for _opcode, _class in CLASSES.items():
    assert _class.SPEC.opcode is _opcode
    assert {f.name for f in fields(_class)} == {f.name for f in _class.SPEC.fields[1:]}, (
        f"{_class.__name__} and spec.py differ"
    )
#: The stage of each class whose fields do not decide it: asked for every instruction, many times.
_FIXED_STAGE: Mapping[type[Insn], Stage] = {
    kind: kind.SPEC.stage for kind in CLASSES.values() if isinstance(kind.SPEC.stage, Stage)
}
#: LOAD_STAGE by number, which spares making a Memory of it.
_LOAD_STAGE: Mapping[int, Stage] = {int(memory): stage for memory, stage in LOAD_STAGE.items()}
