# SPDX-License-Identifier: Apache-2.0
"""Encode: operations with scratchpad addresses -> instructions and micro-ops.

In:   a VtaProgram whose tiles have addresses, and whose DRAM tensors have places.
Out:  the same with instructions, FINISH last, whose tokens are still missing, and the micro-op
      table.
Next: synchronize/synchronize.py orders the stages by tokens.

One walk over the operations notes of each its kind, and where its operands begin; expand.py says
what a kind becomes. Then all instructions are made at once, as columns, and micro_op_cache.py says
where each list of micro-ops stands. A `Fill 0` before a GEMM costs no pass of its own where the
device can overwrite: the micro-ops of the first reduction step write, the others add.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.numerics import Rounding
from loadstone.vta.isa.insn import Config, Finish
from loadstone.vta.isa.instruction_columns import PLACES, InsnForm, InstructionColumns
from loadstone.vta.isa.spec import (
    CONFIG_DEFAULTS,
    LOAD_STAGE,
    MICRO_OPS,
    TOKEN_FLAGS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Stage,
)
from loadstone.vta.passes.encode.expand import (
    ExpandedPart,
    Expander,
    accesses_of,
    in_groups,
    in_planes,
    kind_of_copy,
    kind_of_nest,
)
from loadstone.vta.passes.encode.folding import can_overwrite
from loadstone.vta.passes.encode.micro_op_cache import MicroOpLists, with_micro_ops
from loadstone.vta.passes.encode.verify import verify_encoding
from loadstone.vta.passes.program import UOP_TENSOR, LayerOperation, ProgramPass, VtaProgram
from loadstone.vta.stream.operations import (
    AluNest,
    FillNest,
    GemmNest,
    Nest,
    Operation,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["Encode"]


class Encode(ProgramPass):
    """Operations -> instructions. Raises LoweringError for what no instruction can express."""

    name: ClassVar[str] = "encode"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Adds instructions and micro-ops."""
        encoder = _Encoder(program)
        overwrites = program.config.has(Capability.GEMM_OVERWRITE)
        following = _following(program.operations) if overwrites else {}
        for number, (layer, operation) in enumerate(program.operations):
            encoder.add(layer, operation, following.get(number))
        encoder.finish()
        table = program.places.get(UOP_TENSOR, Address(0, 0))
        instructions, lists = encoder.columns()
        instructions, uops = with_micro_ops(instructions, lists, table, program.config)
        return replace(program, instructions=instructions, uops=uops)

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Every field fits, every access stays in its scratchpad, every micro-op was loaded."""
        verify_encoding(after)


def _following(operations: Sequence[LayerOperation]) -> dict[int, Operation]:
    """For each Fill, the next operation that touches its tile: on a device that can overwrite."""
    result: dict[int, Operation] = {}
    upcoming: dict[VirtualTile, Operation] = {}
    for number in range(len(operations) - 1, -1, -1):
        operation = operations[number][1]
        if isinstance(operation, FillNest) and operation.dst.tile in upcoming:
            result[number] = upcoming[operation.dst.tile]
        for tile in tiles_of(operation):
            upcoming[tile] = operation
    return result


class _Encoder:
    """Notes what each operation becomes; `columns` are the instructions, without tokens, and their
    micro-ops without a place."""

    def __init__(self, program: VtaProgram) -> None:
        assert program.tile_address is not None, "allocate/allocate.py comes first"
        self.address = program.tile_address
        self.places = program.places
        self.packed = program.packed
        self.config = program.config
        self.expander = Expander(program.config)
        self.kinds: dict[Hashable, int] = {}  # of operations: numbers
        self.parts: list[Sequence[ExpandedPart]] = []  # by number of a kind
        self.begins: dict[tuple[str, Memory], tuple[int, int]] = {}  # region, tiles from its start
        self.layers: dict[str, int] = {}  # numbers
        # of each operation: its kind, its layer, where it begins in DRAM and its operands do
        self.rows: list[tuple[int, ...]] = []
        self.registers = {
            (stage, register): value
            for register, value in CONFIG_DEFAULTS.items()
            for stage in Stage
        }
        self.number = 0
        self.fresh: set[VirtualTile] = set()  # tiles whose next GEMM overwrites
        self.overwrites: dict[Hashable, bool] = {}

    def add(self, layer: str, operation: Operation, following: Operation | None) -> None:
        """One operation; `following`: of a Fill, what touches its tile next."""
        if layer is not self.expander.layer:
            self.enter(layer)
        if type(operation) is TileLoad:
            self.load(operation)
        elif type(operation) is TileStore:
            self.store(operation)
        elif type(operation) is FillNest:
            self.fill(operation, following)
        else:
            self.compute(operation)

    def finish(self) -> None:
        """The end of the program."""
        self.enter("finish")
        self.alone("finish", InsnForm(Finish()))

    def enter(self, layer: str) -> None:
        """What is added now is of this layer."""
        self.expander.layer = layer
        self.number = self.layers.setdefault(layer, len(self.layers))

    def known(self, key: Hashable, parts: Iterable[ExpandedPart]) -> int:
        """The number of a new kind."""
        self.parts.append(tuple(parts))
        number = self.kinds[key] = len(self.kinds)
        return number

    def alone(self, key: Hashable, form: InsnForm) -> None:
        """An instruction that touches nothing."""
        kind = self.kinds.get(key)
        number = self.known(key, [ExpandedPart(form)]) if kind is None else kind
        self.rows.append((number, self.number, 0, *_NOWHERE))

    # --- memory instructions ----------------------------------------------------------------------
    def load(self, o: TileLoad) -> None:
        """One LOAD, or several."""
        if o.y_pad_0 or o.y_pad_1 or o.x_pad_0 or o.x_pad_1:
            self.set_register(LOAD_STAGE[o.memory], ConfigRegister.PAD_VALUE, o.pad_value)
        if o.memory is not Memory.WGT or o.dram.tensor not in self.packed:
            return self.copy(o, o.memory)
        first = self.packed[o.dram.tensor]
        if first is None:
            self.expander.need(Capability.WEIGHTS4, "LOAD of WGT_4BIT")
            return self.copy(in_groups(o, self.config), Memory.WGT_4BIT)
        self.expander.need(Capability.WEIGHT_CODE, "LOAD of WGT_PLANES")
        for part in in_planes(o, first):
            self.copy(part, Memory.WGT_PLANES)
        return None

    def store(self, o: TileStore) -> None:
        """One STORE, or several."""
        by, others = o.requantization, []
        if by is not None:
            self.expander.need(Capability.STORE_REQUANTIZE, "STORE with requantize")
            self.set_requantization(Stage.STORE, by)
            others.append(self.address[by.tile] + by.offset)
        if o.whole:
            self.expander.need(Capability.STORE_ACC, "STORE of ACC")
        if o.inp is None:
            return self.copy(o, o.memory, *others)
        self.expander.need(Capability.STORE_INP, "STORE to INP")
        to = self.address[o.inp.tile] + o.inp.offset
        return self.place(o, 0, to, *others, to)

    def copy(self, o: TileLoad | TileStore, memory: Memory, *others: int) -> None:
        """LOADs, or STOREs to DRAM."""
        region, first = self.begin(o.dram.tensor, memory)
        self.place(o, region, first + o.dram.tile, *others)

    def place(self, o: TileLoad | TileStore, region: int, to: int, *others: int) -> None:
        """LOADs or STOREs. to: where they begin on the far side of the scratchpad tile; others:
        where their further ranges do."""
        key = (region, *kind_of_copy(o))
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.known(key, self.expander.copy(o, region))
        at = self.address[o.tile] + o.offset
        self.rows.append((kind, self.number, to, at, *others, *_NOWHERE[len(others) + 1 :]))

    def begin(self, tensor: str, memory: Memory) -> tuple[int, int]:
        """A tensor's region, and its first tile, counted from the region's start."""
        found = self.begins.get((tensor, memory))
        if found is None:
            place, size = self.places[tensor], self.config.base_bytes(memory)
            first, rest = divmod(place.offset_bytes, size)
            if rest:
                raise AssertionError(
                    f"{tensor} at {place.offset_bytes} is not on a {memory.name} tile"
                )
            found = self.begins[tensor, memory] = (place.region, first)
        return found

    # --- compute instructions ---------------------------------------------------------------------
    def set_register(self, stage: Stage, register: ConfigRegister, value: int) -> None:
        """A CONFIG, unless the register holds the value already."""
        if self.registers[stage, register] == value:
            return
        self.registers[stage, register] = value
        self.expander.need(Capability.CONFIG, f"{register.name}={value}")
        insn = Config(stage=int(stage), register_id=int(register), value=value)
        self.alone((stage, register, value), InsnForm(insn))

    def fill(self, o: FillNest, following: Operation | None) -> None:
        """GEMMs that reset, and an addition where the value is not 0; nothing where the GEMM behind
        a Fill 0 does all that it would."""
        if o.value == 0 and type(following) is GemmNest and following.dst.tile is o.dst.tile:
            shape = (o.extents, o.dst.strides, o.dst.base - following.dst.base)
            key = (shape, kind_of_nest(following))
            if key not in self.overwrites:
                limits = self.expander.gemm_limits
                self.overwrites[key] = can_overwrite(o, following, limits)
            if self.overwrites[key]:
                self.fresh.add(o.dst.tile)
                return
        self.compute(replace(o, value=0) if o.value else o)
        if o.value:
            self.compute(AluNest(AluOp.ADD, o.extents, o.dst, None, o.value))

    def compute(self, o: Nest) -> None:
        """GEMM and ALU instructions."""
        fresh = type(o) is GemmNest and o.dst.tile in self.fresh
        if fresh:
            self.fresh.discard(o.dst.tile)
        if type(o) is RequantizeNest:
            self.expander.need(Capability.REQUANTIZE, "RQ")
            self.set_requantization(Stage.COMPUTE, o)
        key = (type(o), fresh, kind_of_nest(o))
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.known(key, self.expander.nest(o, fresh=fresh))
        address = self.address
        begins = [address[access.tile] + access.base for access in accesses_of(o)]
        self.rows.append((kind, self.number, 0, 0, *begins, *_NOWHERE[len(begins) + 1 :]))

    def set_requantization(self, stage: Stage, o: RequantizeNest | StoreRequantization) -> None:
        """The registers of a stage that requantizes."""
        for register, value in (
            (ConfigRegister.RQ_ZERO_POINT, o.zero_point),
            (ConfigRegister.RQ_MIN, o.low),
            (ConfigRegister.RQ_MAX, o.high),
            (ConfigRegister.RQ_ROUNDING, int(Rounding(o.rounding))),
        ):
            self.set_register(stage, register, value)

    # --- all instructions -------------------------------------------------------------------------
    def columns(self) -> tuple[InstructionColumns, MicroOpLists]:
        """The instructions, and the micro-ops of each."""
        width = 3 + PLACES
        flat = chain.from_iterable(self.rows)
        rows = np.fromiter(flat, np.int64, len(self.rows) * width).reshape(-1, width)
        parts = [part for parts in self.parts for part in parts]
        count = np.array([len(parts) for parts in self.parts], np.int64)
        operation, part = _expanded(rows[:, 0], count)
        layer, dram, at = rows[operation, 1], rows[operation, 2], rows[operation, 3:]
        lists = _lists(parts, part, at[:, 1:])
        at[:, 0] += np.array([p.at for p in parts], np.int64)[part]
        dram += np.array([p.dram for p in parts], np.int64)[part]
        columns = InstructionColumns(
            [p.form for p in parts],
            list(self.layers),
            part.astype(np.int32),
            layer.astype(np.int32),
            at,
            dram,
            np.zeros((len(part), len(TOKEN_FLAGS)), np.uint8),
        )
        return columns, lists


def _expanded(
    kind: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each instruction, the number of its operation, and that of its part among those of all
    kinds. kind (operations,); count (kinds,): parts of each."""
    of_each = count[kind]
    operation = np.repeat(np.arange(len(kind)), of_each)
    before = np.cumsum(of_each) - of_each
    begin = np.cumsum(count) - count
    return operation, (begin[kind] - before)[operation] + np.arange(len(operation))


def _lists(
    parts: Sequence[ExpandedPart], part: NDArray[np.int64], begins: NDArray[np.int64]
) -> MicroOpLists:
    """The micro-ops of instructions, each list once. part (n,): of each instruction; begins (n, 3):
    where its operands do."""
    shapes: dict[bytes, int] = {}  # lists that begin at 0: numbers
    shape, first = [], []  # type: list[int], list[NDArray[np.int64]]
    for entry in parts:
        uops = _NO_UOPS if entry.uops is None else entry.uops
        shape.append(shapes.setdefault((uops - uops[:1]).tobytes(), len(shapes)))
        first.append(uops[0] if len(uops) else uops.sum(axis=0))
    has = np.array([entry.uops is not None for entry in parts], np.bool_)[part]
    held = part[has]
    rows = np.array(first, np.int64).reshape(-1, len(MICRO_OPS))[held] + begins[has]
    numbers: dict[tuple[int, ...], int] = {}
    keys = zip(np.array(shape)[held].tolist(), *rows.T.tolist(), strict=True)
    which = [numbers.setdefault(key, len(numbers)) for key in keys]
    lists = np.array(list(numbers), np.int64).reshape(-1, 1 + len(MICRO_OPS))
    bodies = [np.frombuffer(body, np.int64).reshape(-1, len(MICRO_OPS)) for body in shapes]
    return MicroOpLists(np.flatnonzero(has), which, bodies, lists[:, 0], lists[:, 1:])


#: Where an instruction stands that touches nothing.
_NOWHERE = (0,) * PLACES
_NO_UOPS = np.zeros((0, len(MICRO_OPS)), np.int64)
