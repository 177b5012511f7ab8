"""Operations with addresses -> instructions and micro-ops.

In:   operations and tile addresses (allocate.py), and where each DRAM tensor stands
      (artifact/deploy.py).
Out:  Drafts: instruction fields without tokens, the stage that executes it, what it reads and
      writes; and the micro-op table.
Next: sync.py orders the stages by tokens; program.py encodes.

A GEMM or ALU instruction is two hardware loops around a list of micro-ops. A nest of more loops is
folded:

    for oc<4 i<8 j<16 ic<2 kh<3 kw<3:            iter_out = i, iter_in = j        the two longest
        stay loops,
      acc[..] += inp[..] * wgt[..]        ->     uops = (oc, ic, kh, kw): 72      the others are
      written out

Loops that are contiguous in every operand are merged first. A `Fill 0` before a GEMM costs no pass
of its own where the device can overwrite: the micro-ops of the first reduction step write, the
others add.

Micro-op lists are found again while they are still in the scratchpad, which is used as a ring; a
miss fetches, with one load, also the new lists of the next instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Place
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.allocate import tiles_of
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import (
    CONFIG_DEFAULTS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Opcode,
    Stage,
)
from loadstone.vta.stream import (
    Access,
    Alu,
    Fill,
    Gemm,
    Load,
    Operation,
    Requantize,
    Store,
    VirtualTile,
)

__all__ = ["UOP_TENSOR", "Draft", "DramRows", "Folded", "fold"]

#: Name of the micro-op table among the DRAM tensors.
UOP_TENSOR = "micro-ops"
#: A miss fetches at most this many micro-ops ahead.
_PREFETCH_UOPS = 512
_MAX_ITER = (1 << 14) - 1
_MAX_SIZE = (1 << 16) - 1
_MAX_PAD = 15

#: One loop: its extent, and how far it moves each operand.
Loop: TypeAlias = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DramRows:
    """Bytes of DRAM that an instruction touches: `rows` rows of `row_bytes`, `stride_bytes`
    apart."""

    region: int
    start_bytes: int
    rows: int
    row_bytes: int
    stride_bytes: int
    write: bool


@dataclass(slots=True)
class Draft:
    """An instruction before its tokens are known. scratch: (memory, first tile, one past the last,
    written?)."""

    opcode: Opcode
    stage: Stage
    fields: dict[str, int]
    scratch: list[tuple[Memory, int, int, bool]]
    dram: DramRows | None = None
    layer: str = ""
    steps: int = 0
    flags: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Folded:
    """Drafts in program order and the micro-op table (N, 3) that they load from UOP_TENSOR."""

    drafts: list[Draft]
    uops: NDArray[np.int64]


@dataclass(slots=True)
class _Step:
    """An instruction that still lacks its micro-op range."""

    draft: Draft
    uops: bytes


def fold(
    operations: Sequence[tuple[str, Operation]],
    address: Mapping[VirtualTile, int],
    places: Mapping[str, Place],
    config: HwConfig,
) -> Folded:
    """`operations`: (layer name, operation) in program order. `places` holds every DRAM tensor,
    UOP_TENSOR included.

    Raises LoweringError for what no instruction can express.
    """
    folder = _Folder(address, places, config)
    following = _following(operations)
    for number, (layer, operation) in enumerate(operations):
        folder.layer = layer
        folder.add(operation, following.get(number))
    return _place_uops(folder.items, places, config)


def _following(operations: Sequence[tuple[str, Operation]]) -> dict[int, Operation]:
    """For each Fill, the next operation that touches its tile."""
    result: dict[int, Operation] = {}
    upcoming: dict[VirtualTile, Operation] = {}
    for number in range(len(operations) - 1, -1, -1):
        operation = operations[number][1]
        if isinstance(operation, Fill) and operation.dst.tile in upcoming:
            result[number] = upcoming[operation.dst.tile]
        for tile in tiles_of(operation):
            upcoming[tile] = operation
    return result


class _Folder:
    def __init__(
        self, address: Mapping[VirtualTile, int], places: Mapping[str, Place], config: HwConfig
    ) -> None:
        self.address = address
        self.places = places
        self.config = config
        self.items: list[Draft | _Step] = []
        self.layer = ""
        self.registers = {
            (stage, register): value
            for register, value in CONFIG_DEFAULTS.items()
            for stage in Stage
        }
        self.fresh: set[VirtualTile] = set()  # tiles whose next GEMM overwrites

    # --- what comes -------------------------------------------------------------------------------
    def add(self, operation: Operation, following: Operation | None) -> None:
        if isinstance(operation, Load):
            self.load(operation)
        elif isinstance(operation, Store):
            self.store(operation)
        elif isinstance(operation, Gemm):
            self.gemm(operation)
        elif isinstance(operation, Fill):
            self.fill(operation, following)
        elif isinstance(operation, Requantize):
            self.requantize(operation)
        else:
            self.alu(operation)

    # --- memory instructions ----------------------------------------------------------------------
    def load(self, o: Load) -> None:
        stage = Stage.LOAD if o.memory in (Memory.INP, Memory.WGT) else Stage.COMPUTE
        if max(o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1):
            self.set_register(stage, ConfigRegister.PAD_VALUE, o.pad_value)
        for part in _split_load(o, self.config):
            base = self.address[o.tile] + part.offset
            width = part.x_pad_0 + part.x_size + part.x_pad_1
            count = (part.y_pad_0 + part.y_size + part.y_pad_1) * width
            fields = self.memory_fields(part, base, o.memory)
            fields.update(
                y_pad_0=part.y_pad_0,
                y_pad_1=part.y_pad_1,
                x_pad_0=part.x_pad_0,
                x_pad_1=part.x_pad_1,
            )
            target = Memory.ACC if o.memory is Memory.ACC_8BIT else o.memory
            self.items.append(
                Draft(
                    Opcode.LOAD,
                    stage,
                    fields,
                    [(target, base, base + count, True)],
                    self.rows(part, o.memory, False),
                    self.layer,
                )
            )

    def store(self, o: Store) -> None:
        for part in _split_store(o):
            base = self.address[o.tile] + part.offset
            scratch = [(Memory.ACC, base, base + part.x_size * part.y_size, False)]
            fields = self.memory_fields(part, base, Memory.OUT)
            self.items.append(
                Draft(
                    Opcode.STORE,
                    Stage.STORE,
                    fields,
                    scratch,
                    self.rows(part, Memory.OUT, True),
                    self.layer,
                )
            )

    def memory_fields(self, o: Load | Store, sram_base: int, memory: Memory) -> dict[str, int]:
        place = self.places[o.dram.tensor]
        tile_bytes = self.config.tile_bytes(memory)
        assert place.offset_bytes % tile_bytes == 0, (
            f"{o.dram.tensor} at {place.offset_bytes} is not on a {memory.name} tile"
        )
        return {
            "memory_id": memory,
            "sram_base": sram_base,
            "dram_base": place.offset_bytes // tile_bytes + o.dram.tile,
            "region": place.region,
            "y_size": o.y_size,
            "x_size": o.x_size,
            "x_stride": o.x_stride if o.y_size > 1 else o.x_size,
        }

    def rows(self, o: Load | Store, memory: Memory, write: bool) -> DramRows:
        place = self.places[o.dram.tensor]
        size = self.config.tile_bytes(memory)
        return DramRows(
            place.region,
            place.offset_bytes + o.dram.tile * size,
            o.y_size,
            o.x_size * size,
            o.x_stride * size,
            write,
        )

    # --- compute instructions ---------------------------------------------------------------------
    def set_register(self, stage: Stage, register: ConfigRegister, value: int) -> None:
        if self.registers[stage, register] == value:
            return
        self.registers[stage, register] = value
        if not self.config.has(Capability.CONFIG):
            raise LoweringError(
                f"fold: {self.layer}: {register.name}={value} is needed, but device "
                f"{self.config.name} has no CONFIG"
            )
        fields = {"stage": int(stage), "register_id": int(register), "value": value}
        self.items.append(Draft(Opcode.CONFIG, stage, fields, [], None, self.layer))

    def gemm(self, o: Gemm) -> None:
        widths = (self.config.la, self.config.li, self.config.lw)
        fresh = o.dst.tile in self.fresh
        self.fresh.discard(o.dst.tile)
        nest = _nest(o.extents, (o.dst, o.src, o.wgt), self.address)
        for loops, uops, bases in _fold_nest(
            nest, widths, self.config, keep_reductions_inside=fresh
        ):
            table = uops + bases
            if not fresh:
                self.step(Opcode.GEMM, loops, table, "gemm", {"reset": 0, "overwrite": 0})
                continue
            # The first micro-op of every accumulator tile overwrites; they come first, and keep
            # their order.
            _, first = np.unique(table[:, 0], return_index=True)
            begins = np.zeros(len(table), bool)
            begins[first] = True
            self.step(Opcode.GEMM, loops, table[begins], "gemm", {"reset": 0, "overwrite": 1})
            if not begins.all():
                self.step(Opcode.GEMM, loops, table[~begins], "gemm", {"reset": 0, "overwrite": 0})

    def fill(self, o: Fill, following: Operation | None) -> None:
        if self.can_overwrite(o, following):
            self.fresh.add(o.dst.tile)
            return
        nest = _nest(o.extents, (o.dst,), self.address)
        for loops, uops, bases in _fold_nest(nest, (self.config.la,), self.config):
            table = np.zeros((len(uops), 3), np.int64)
            table[:, 0] = uops[:, 0] + bases[0]
            self.step(
                Opcode.GEMM,
                [(n, (s[0], 0, 0)) for n, s in loops],
                table,
                "fill",
                {"reset": 1, "overwrite": 0},
            )
        if o.value:
            self.alu(Alu(AluOp.ADD, o.extents, o.dst, None, o.value))

    def can_overwrite(self, o: Fill, following: Operation | None) -> bool:
        """Whether the GEMM behind a Fill 0 writes every tile that the Fill would, and can be folded
        with its reductions in micro-ops."""
        if o.value or not self.config.has(Capability.GEMM_OVERWRITE):
            return False
        if not isinstance(following, Gemm) or following.dst.tile is not o.dst.tile:
            return False
        kept = [
            (n, s)
            for n, s in zip(following.extents, following.dst.strides, strict=True)
            if s and n > 1
        ]
        if _index_set(o.extents, o.dst) != _index_set(
            tuple(n for n, _ in kept), replace(following.dst, strides=tuple(s for _, s in kept))
        ):
            return False
        nest = _nest(following.extents, (following.dst, following.src, following.wgt), self.address)
        widths = (self.config.la, self.config.li, self.config.lw)
        try:
            return (
                sum(1 for _ in _fold_nest(nest, widths, self.config, keep_reductions_inside=True))
                == 1
            )
        except LoweringError:
            return False

    def alu(self, o: Alu) -> None:
        la = self.config.la
        if o.op is AluOp.MUL and not self.config.has(Capability.ALU_MUL):
            raise LoweringError(
                f"fold: {self.layer}: MUL is needed, but device {self.config.name} has no alu_mul"
            )
        if o.src is None and not -(1 << 15) <= o.imm < 1 << 15:
            raise LoweringError(
                f"fold: {self.layer}: ALU.imm={o.imm} does not fit 16 bits [-32768, 32767]"
            )
        src = o.dst if o.src is None else o.src
        nest = _reductions_outermost(_nest(o.extents, (o.dst, src), self.address))
        fields = {
            "reset": 0,
            "alu_op": int(o.op),
            "use_imm": int(o.src is None),
            "imm": o.imm if o.src is None else 0,
        }
        for loops, uops, bases in _fold_nest(nest, (la, la), self.config, in_order=True):
            self.step(Opcode.ALU, loops, _alu_table(uops, bases), "alu", fields)

    def requantize(self, o: Requantize) -> None:
        if not self.config.has(Capability.REQUANTIZE):
            raise LoweringError(
                f"fold: {self.layer}: RQ is needed, but device {self.config.name} has no requantize"
            )
        for register, value in (
            (ConfigRegister.RQ_ZERO_POINT, o.zero_point),
            (ConfigRegister.RQ_MIN, o.low),
            (ConfigRegister.RQ_MAX, o.high),
            (ConfigRegister.RQ_ROUNDING, int(Rounding(o.rounding))),
        ):
            self.set_register(Stage.COMPUTE, register, value)
        la = self.config.la
        fields = {"reset": 0, "alu_op": int(AluOp.RQ), "use_imm": 0, "imm": 0}
        for loops, uops, bases in _fold_nest(
            _nest(o.extents, (o.dst, o.operands), self.address),
            (la, la),
            self.config,
            in_order=True,
        ):
            self.step(Opcode.ALU, loops, _alu_table(uops, bases), "rq", fields)

    def step(
        self,
        opcode: Opcode,
        loops: list[Loop],
        table: NDArray[np.int64],
        kind: str,
        fields: Mapping[str, int],
    ) -> None:
        """One GEMM or ALU instruction: loops is [outer, inner]; table (n, 3) holds absolute tile
        indices."""
        (n0, s0), (n1, s1) = loops
        reach = [(n0 - 1) * a + (n1 - 1) * b for a, b in zip(s0, s1, strict=True)]
        low, high = table.min(axis=0).tolist(), table.max(axis=0).tolist()
        out = {**fields, "iter_out": n0, "iter_in": n1, "dst_out": s0[0], "dst_in": s1[0]}
        if kind == "fill":
            scratch = [(Memory.ACC, low[0], high[0] + reach[0] + 1, True)]
            out.update(src_out=0, src_in=0, wgt_out=0, wgt_in=0)
        else:
            source = Memory.INP if kind == "gemm" else Memory.ACC
            extra = 2 if kind == "rq" else 0
            scratch = [
                (Memory.ACC, low[0], high[0] + reach[0] + 1, True),
                (source, low[1], high[1] + reach[1] + 1 + extra, False),
            ]
            out.update(src_out=s0[1], src_in=s1[1])
            if kind == "gemm":
                scratch.append((Memory.WGT, low[2], high[2] + reach[2] + 1, False))
                out.update(wgt_out=s0[2], wgt_in=s1[2])
        draft = Draft(opcode, Stage.COMPUTE, out, scratch, None, self.layer, n0 * n1 * len(table))
        self.items.append(_Step(draft, np.ascontiguousarray(table).tobytes()))


def _alu_table(uops: NDArray[np.int64], bases: NDArray[np.int64]) -> NDArray[np.int64]:
    table = np.zeros((len(uops), 3), np.int64)
    table[:, :2] = uops + bases
    return table


# --- memory instructions that do not fit ----------------------------------------------------------
def _split_load(o: Load, config: HwConfig) -> Iterator[Load]:
    """Parts whose fields fit; offsets stay relative to the tile."""
    if max(o.x_pad_0, o.x_pad_1) > _MAX_PAD or max(o.y_pad_0, o.y_pad_1) > _MAX_PAD:
        pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1)
        raise LoweringError(
            f"fold: load of {o.tile.name} has pads {pads}; a pad field has 4 bits [0, "
            f"{_MAX_PAD}]: smaller tiles are needed"
        )
    # VTA's RTL cannot count the beats of 2048 INP tiles in one load.
    limit = 2047 if config.profile == "vta" and o.memory is Memory.INP else 1 << 30
    simple = (
        o.x_size <= _MAX_SIZE
        and o.y_size <= _MAX_SIZE
        and (o.x_stride <= _MAX_SIZE or o.y_size == 1)
    )
    if simple and o.x_size * o.y_size <= limit:
        yield o
        return
    width = o.x_pad_0 + o.x_size + o.x_pad_1
    step = max(1, min(limit // o.x_size, o.y_size // 2)) if simple and o.y_size > 1 else 1
    if o.y_size == 1:
        half = o.x_size // 2
        if o.y_pad_0 or o.y_pad_1 or half == 0:
            raise LoweringError(
                f"fold: load of {o.tile.name}: a row of {o.x_size} tiles with pads cannot be split"
            )
        yield from _split_load(replace(o, x_size=half, x_pad_1=0), config)
        rest = replace(o.dram, tile=o.dram.tile + half)
        yield from _split_load(
            replace(
                o, x_size=o.x_size - half, x_pad_0=0, dram=rest, offset=o.offset + o.x_pad_0 + half
            ),
            config,
        )
        return
    for y in range(0, o.y_size, step):
        last = y + step >= o.y_size
        yield from _split_load(
            replace(
                o,
                offset=o.offset + (0 if y == 0 else (o.y_pad_0 + y) * width),
                dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride),
                y_size=min(step, o.y_size - y),
                y_pad_0=o.y_pad_0 if y == 0 else 0,
                y_pad_1=o.y_pad_1 if last else 0,
            ),
            config,
        )


def _split_store(o: Store) -> Iterator[Store]:
    if (
        o.x_size <= _MAX_SIZE
        and o.y_size <= _MAX_SIZE
        and (o.x_stride <= _MAX_SIZE or o.y_size == 1)
    ):
        yield o
        return
    for y in range(o.y_size):
        yield replace(
            o,
            offset=o.offset + y * o.x_size,
            dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride),
            y_size=1,
        )


# --- nests ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Nest:
    loops: list[Loop]
    bases: NDArray[np.int64]


def _nest(
    extents: tuple[int, ...], accesses: Sequence[Access], address: Mapping[VirtualTile, int]
) -> _Nest:
    """Absolute bases; loops of one turn left out, loops that are contiguous in every operand
    merged."""
    bases = np.array([address[a.tile] + a.base for a in accesses], np.int64)
    merged: list[Loop] = []
    for k, n in enumerate(extents):
        if n == 1:
            continue
        strides = tuple(a.strides[k] for a in accesses)
        if merged and all(
            outer == n * inner for outer, inner in zip(merged[-1][1], strides, strict=True)
        ):
            merged[-1] = (merged[-1][0] * n, strides)
        else:
            merged.append((n, strides))
    return _Nest(merged, bases)


def _reductions_outermost(nest: _Nest) -> _Nest:
    """Steps that write one accumulator tile again must lie apart: VTA's ALU does not see results of
    the last two steps."""
    return _Nest(sorted(nest.loops, key=lambda loop: loop[1][0] != 0), nest.bases)


def _index_set(extents: tuple[int, ...], access: Access) -> frozenset[int]:
    return frozenset(
        (
            access.base
            + _offsets([(n, (s,)) for n, s in zip(extents, access.strides, strict=True)], 1)[:, 0]
        ).tolist()
    )


def _offsets(loops: Sequence[Loop], operands: int) -> NDArray[np.int64]:
    """(product of extents, operands): every combination of the loops, outermost first."""
    table = np.zeros((1, operands), np.int64)
    for n, strides in loops:
        table = (
            table[:, None, :] + np.arange(n)[None, :, None] * np.array(strides, np.int64)
        ).reshape(-1, operands)
    return table


def _fold_nest(
    nest: _Nest,
    widths: Sequence[int],
    config: HwConfig,
    keep_reductions_inside: bool = False,
    in_order: bool = False,
) -> Iterator[tuple[list[Loop], NDArray[np.int64], NDArray[np.int64]]]:
    """([outer, inner], micro-op offsets, bases) for each instruction that the nest becomes.

    in_order: the hardware loops must be the outermost ones, so that steps keep the order of the
        nest.
    """
    operands = len(nest.bases)
    loops = nest.loops
    usable = [
        k
        for k, (n, s) in enumerate(loops)
        if n <= _MAX_ITER and all(0 <= x < 1 << w for x, w in zip(s, widths, strict=True))
    ]
    if keep_reductions_inside:
        usable = [k for k in usable if loops[k][1][0] != 0]
    if in_order:
        usable = [k for k in (0, 1) if k in usable] if 0 in usable else []
    pairs = [*combinations(usable, 2), *((k,) for k in usable), ()]
    chosen = max(pairs, key=lambda pair: prod(loops[k][0] for k in pair))
    hardware = [loops[k] for k in chosen]
    while len(hardware) < 2:
        hardware.insert(0, (1, (0,) * operands))
    inside = [loops[k] for k in range(len(loops)) if k not in chosen]
    if keep_reductions_inside:
        inside.sort(
            key=lambda loop: loop[1][0] != 0
        )  # reductions outermost: the first step of every tile comes first
    limit = config.depth(Memory.UOP) // 2
    outer: list[Loop] = []
    while (
        prod(n for n, _ in inside) > limit
    ):  # too many micro-ops for one instruction: one for each turn of the outermost
        outer.append(inside.pop(0))
    if keep_reductions_inside and outer:
        raise LoweringError("fold: the reductions of a GEMM do not fit the micro-op scratchpad")
    uops = _offsets(inside, operands)
    for shift in _offsets(outer, operands):
        yield hardware, uops, nest.bases + shift


# --- the micro-op scratchpad ----------------------------------------------------------------------
def _place_uops(
    items: Sequence[Draft | _Step], places: Mapping[str, Place], config: HwConfig
) -> Folded:
    """Inserts LOAD UOP where a list is not resident. The table in DRAM holds each list once, in
    order of first use."""
    offset_of: dict[bytes, int] = {}
    order: list[bytes] = []
    total = 0
    for item in items:
        if isinstance(item, _Step) and item.uops not in offset_of:
            offset_of[item.uops] = total
            order.append(item.uops)
            total += len(item.uops) // 24
    rank = {uops: k for k, uops in enumerate(order)}
    depth = config.depth(Memory.UOP)
    ring: dict[
        bytes, tuple[int, int]
    ] = {}  # list -> its range in the scratchpad, in order of loading
    head = 0
    drafts: list[Draft] = []
    place = places.get(UOP_TENSOR, Place(0, 0))
    for item in items:
        if isinstance(item, Draft):
            drafts.append(item)
            continue
        if item.uops not in ring:
            batch = _batch(order, rank[item.uops], ring, depth)
            count = sum(len(u) // 24 for u in batch)
            if head + count > depth:
                head = 0
            for uops in [u for u, (a, b) in ring.items() if a < head + count and head < b]:
                del ring[uops]
            drafts.append(_load_uops(place, offset_of[item.uops], head, count, item.draft.layer))
            for uops in batch:
                ring[uops] = (head, head + len(uops) // 24)
                head += len(uops) // 24
        begin, end = ring[item.uops]
        item.draft.fields.update(uop_bgn=begin, uop_end=end)
        item.draft.scratch.append((Memory.UOP, begin, end, False))
        drafts.append(item.draft)
    table = (
        np.frombuffer(b"".join(order), np.int64).reshape(-1, 3)
        if order
        else np.zeros((0, 3), np.int64)
    )
    return Folded(drafts, table)


def _batch(
    order: Sequence[bytes], first: int, ring: Mapping[bytes, tuple[int, int]], depth: int
) -> list[bytes]:
    """The list wanted and those that follow it in DRAM and are not resident either, up to a quarter
    of the scratchpad."""
    batch = [order[first]]
    count = len(order[first]) // 24
    for uops in order[first + 1 :]:
        count += len(uops) // 24
        if uops in ring or count > min(depth // 4, _PREFETCH_UOPS):
            break
        batch.append(uops)
    return batch


def _load_uops(place: Place, first: int, sram_base: int, count: int, layer: str) -> Draft:
    fields = {
        "memory_id": Memory.UOP,
        "sram_base": sram_base,
        "dram_base": place.offset_bytes // 4 + first,
        "region": place.region,
        "y_size": 1,
        "x_size": count,
        "x_stride": count,
        "y_pad_0": 0,
        "y_pad_1": 0,
        "x_pad_0": 0,
        "x_pad_1": 0,
    }
    rows = DramRows(place.region, place.offset_bytes + 4 * first, 1, 4 * count, 4 * count, False)
    return Draft(
        Opcode.LOAD,
        Stage.COMPUTE,
        fields,
        [(Memory.UOP, sram_base, sram_base + count, True)],
        rows,
        layer,
    )
