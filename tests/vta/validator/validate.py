# SPDX-License-Identifier: Apache-2.0
"""The validator's rules once more, written from runtime/VALIDATION.md, not runtime/validate.c.

In:   an artifact, or instructions with a device and regions.
Out:  None, or a Refusal: instruction, rule, status, one line.
Next: tests compare it with the C validator on whatever they can think of; people read what is wrong
      with a program.

Each rule is computed for the whole stream at once; the refusal is the violation of the first
instruction, of the first rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadstone.artifact.format import Artifact
from loadstone.artifact.memory_plan import MemoryRegion, RegionKind
from loadstone.errors import ConfigError, EncodingError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import Columns, Stream, decode, decode_stream, decode_uops
from loadstone.vta.isa.spec import (
    INSN_BYTES,
    LOAD_STAGE,
    MAX_TOKENS,
    TOKEN_FLAGS,
    TOKEN_QUEUES,
    UOP_BYTES,
    VALUE_NEEDS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Opcode,
    Stage,
    TokenQueue,
)

__all__ = ["RULES", "STATUS", "StreamRefusal", "validate", "validate_program"]

#: Statuses of runtime/include/loadstone.h.
STATUS = {
    "CONFIG": -20,
    "INSTRUCTION": -21,
    "DRAM": -22,
    "SRAM": -23,
    "UOP": -24,
    "TOKEN": -25,
    "FINISH": -26,
}
#: A rule of runtime/VALIDATION.md -> the status that it is refused with.
RULES = {
    "V0": "CONFIG",
    "V1": "INSTRUCTION",
    "V2": "FINISH",
    "V3": "INSTRUCTION",
    "V4": "INSTRUCTION",
    "V5": "INSTRUCTION",
    "V6": "DRAM",
    "V7": "DRAM",
    "V8": "SRAM",
    "V9": "UOP",
    "V10": "INSTRUCTION",
    "V11": "UOP",
    "V12": "SRAM",
    "V13": "INSTRUCTION",
    "V14": "TOKEN",
    "V15": "TOKEN",
    "V16": "FINISH",
}
_ORDER = {rule: rank for rank, rule in enumerate(RULES)}
Indices = npt.NDArray[np.int64]
Violation = tuple[int, str]  # instruction, rule
TokenFlags = dict[str, npt.NDArray[np.bool_]]  # name of a flag -> the instructions that have it
QueueUses = dict[TokenQueue, Indices]

_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
#: (stage, flag) -> the queue that the flag is about.
_QUEUES: dict[tuple[Stage, str], TokenQueue] = {
    **{(queue.pusher, queue.push): queue for queue in TOKEN_QUEUES},
    **{(queue.popper, queue.pop): queue for queue in TOKEN_QUEUES},
}


@dataclass(frozen=True)
class StreamRefusal:
    """The first instruction that is refused, and the rule of runtime/VALIDATION.md it breaks."""

    program: int
    instruction: int
    rule: str

    @property
    def status(self) -> int:
        """As the C runtime returns it."""
        return STATUS[RULES[self.rule]]


def validate(artifact: Artifact) -> StreamRefusal | None:
    """All device programs of an artifact. Raises ConfigError for a fingerprint of no possible
    device (V0)."""
    config = possible_config(artifact.fingerprint)
    for number, program in enumerate(artifact.programs):
        found = validate_program(program.instructions, config, artifact.regions)
        if found is not None:
            return StreamRefusal(number, *found)
    return None


def validate_program(
    instructions: bytes, config: HwConfig, regions: Sequence[MemoryRegion]
) -> Violation | None:
    """The first (instruction, rule) that is violated, or None."""
    count = len(instructions) // INSN_BYTES
    readable = _readable(instructions, config)
    stream = decode_stream(instructions[: readable * INSN_BYTES], config)
    violations = [
        *_finishes(stream, count),
        *_memory(stream, config, regions),
        *_loops(stream, config),
        *_micro_ops(stream, config, regions),
        *_configs(stream, config),
        *_tokens(stream, count),
    ]
    if readable < count:
        violations.append((readable, "V1"))
    return min(violations, key=lambda v: (v[0], _ORDER[v[1]]), default=None)


def possible_config(fingerprint: bytes) -> HwConfig:
    """V0: the device of 20 bytes, if there can be one; what else the bytes say does not matter.
    Raises ConfigError."""
    batch, block, uop, inp, wgt, acc = fingerprint[4:10]
    depth, capabilities = (int.from_bytes(fingerprint[at : at + 4], "little") for at in (12, 16))
    profile = {bytes((3, 3, 5)): "vta", bytes((4, 4, 5)): "vtab"}.get(fingerprint[1:4])
    if profile is None or depth < 1:  # 0 would be all that can be encoded
        raise ConfigError("the fingerprint is of no device that can be")
    known = Capability(capabilities & int(sum(Capability)))
    sizes = (batch, block, uop, inp, wgt, acc, fingerprint[1])
    return HwConfig("fingerprint", *sizes, profile, uop_depth=depth, capabilities=known)


def _readable(instructions: bytes, config: HwConfig) -> int:
    """Instructions before the first that does not decode."""
    try:
        return len(decode_stream(instructions, config))
    except EncodingError:  # of a whole stream it does not say where
        parts = (instructions[at : at + INSN_BYTES] for at in itertools.count(step=INSN_BYTES))
        return next(number for number, insn in enumerate(parts) if not _decodes(insn, config))


def _decodes(insn: bytes, config: HwConfig) -> bool:
    try:
        decode(insn, config)
    except EncodingError:
        return False
    return True


def _where(index: Indices, broken: npt.NDArray[np.bool_], rule: str) -> Iterator[Violation]:
    """The first instruction of a kind that breaks a rule: later ones cannot matter."""
    at = np.flatnonzero(broken)
    if at.size:
        yield int(index[at[0]]), rule


def _finishes(stream: Stream, count: int) -> Iterator[Violation]:
    finish = stream.opcode == Opcode.FINISH
    last = np.arange(len(stream)) == count - 1
    yield from _where(np.arange(len(stream)), finish != last, "V2")


# --- LOAD and STORE -------------------------------------------------------------------------------
def _memory(
    stream: Stream, config: HwConfig, regions: Sequence[MemoryRegion]
) -> Iterator[Violation]:
    for opcode in (Opcode.LOAD, Opcode.STORE):
        index, c = stream.index[opcode], stream.columns[opcode]
        store = opcode == Opcode.STORE
        memory, noop = c["memory_id"], c["x_size"] == 0
        wrong_noop = noop & store & (memory != Memory.UOP) & (memory != Memory.OUT)
        to_inp = ~noop & (memory == Memory.INP) & store & config.has(Capability.STORE_INP)
        whole = ~noop & (memory == Memory.ACC) & store & config.has(Capability.STORE_ACC)
        wrong = ((memory == Memory.OUT) != store) & ~to_inp & ~whole
        yield from _where(index, wrong_noop | ((~noop | (not store)) & wrong), "V3")
        own = ("operands", "operand_step", "requantize") if store else _PADS
        others = np.zeros(index.size, bool)
        for name in ("sram_base", "dram_base", "region", "y_size", "x_stride", *own):
            others |= c[name] != 0
        yield from _where(index, noop & others, "V4")
        if store:
            c = {**c, **dict.fromkeys(_PADS, np.zeros(index.size, np.int64))}
            yield from _operands(index, c, config)
            yield from _to_inp(index, c, to_inp, config)
        pads = sum(c[name] for name in _PADS) > 0
        uop = memory == Memory.UOP
        shape = (
            (c["y_size"] == 0)
            | (pads & (uop | (memory == Memory.WGT) | (memory >= Memory.WGT_4BIT)))
            | ((memory == Memory.WGT_PLANES) & (c["x_stride"] != 0))
            | (uop & (c["y_size"] != 1))
        )
        lacks = np.full(index.size, not config.has(Capability.LOAD_ACC8)) & (
            memory == Memory.ACC_8BIT
        )
        lacks |= (memory == Memory.WGT_4BIT) & (not config.has(Capability.WEIGHTS4)) & (not store)
        lacks |= (memory == 7) & (not config.has(Capability.WEIGHT_CODE)) & (not store)
        yield from _where(index, (~noop & shape) | lacks, "V5")
        yield from _extents(index, c, ~noop & ~to_inp, config, regions, store)


def _to_inp(
    index: Indices, c: Columns, to_inp: npt.NDArray[np.bool_], config: HwConfig
) -> Iterator[Violation]:
    """Of STOREs to INP: what they read is in ACC, and dram_base is a tile."""
    yield from _where(index, to_inp & ((c["region"] != 0) | (c["y_size"] == 0)), "V5")
    end = c["dram_base"] + (c["y_size"] - 1) * c["x_stride"] + c["x_size"]
    read = c["sram_base"] + c["y_size"] * c["x_size"] > config.depth(Memory.ACC)
    yield from _where(index, to_inp & ((end > config.depth(Memory.INP)) | read), "V8")


def _operands(index: Indices, c: Columns, config: HwConfig) -> Iterator[Violation]:
    """Of STOREs that requantize."""
    requantize = c["requantize"] != 0
    said = (c["operands"] != 0) | (c["operand_step"] != 0)
    lacks = requantize & (not config.has(Capability.STORE_REQUANTIZE))
    lacks |= requantize & (c["memory_id"] == Memory.ACC)
    yield from _where(index, (said & ~requantize) | lacks, "V5")
    rows = np.where(c["operand_step"] != 0, c["y_size"], 1)
    beyond = c["operands"] + 3 * rows > config.depth(Memory.ACC)
    yield from _where(index, requantize & (c["x_size"] != 0) & beyond, "V8")


def _extents(
    index: Indices,
    c: Columns,
    real: npt.NDArray[np.bool_],
    config: HwConfig,
    regions: Sequence[MemoryRegion],
    store: bool,
) -> Iterator[Violation]:
    region = np.minimum(c["region"], len(regions))  # the last of each list is for what is none
    allowed = [r.device_writes if store else r.device_reads for r in regions] + [False]
    sizes = np.array([*(r.size_bytes for r in regions), 0], np.int64)
    yield from _where(index, real & ~np.array(allowed)[region], "V6")
    in_group, planes = c["memory_id"] == Memory.WGT_4BIT, c["memory_id"] == Memory.WGT_PLANES
    sizes_of = [*(config.tile_bytes(m) for m in Memory if m < 6), 2 * config.block, 8]
    bases = np.array(sizes_of, np.int64)
    steps = ((c["y_size"] - 1) * c["x_stride"] + c["x_size"]) * np.where(in_group, 9, 1)
    end = (c["dram_base"] + steps) * bases[c["memory_id"]]
    yield from _where(index, real & (end > sizes[region]), "V7")
    depth = np.array([config.depth(m) for m in Memory], np.int64)[c["memory_id"]]
    area = (c["y_pad_0"] + c["y_size"] + c["y_pad_1"]) * (c["x_pad_0"] + c["x_size"] + c["x_pad_1"])
    area = np.where(planes, c["y_size"], area * np.where(in_group, 32 // config.block, 1))
    yield from _where(index, real & (c["sram_base"] + area > depth), "V8")
    constant = np.array([*(r.kind == RegionKind.CONSTANTS for r in regions), False])
    yield from _where(index, real & (c["memory_id"] == Memory.UOP) & ~constant[region], "V9")


# --- GEMM and ALU ---------------------------------------------------------------------------------
def _loops(stream: Stream, config: HwConfig) -> Iterator[Violation]:
    index, g = stream.index[Opcode.GEMM], stream.columns[Opcode.GEMM]
    empty = (g["iter_out"] == 0) | (g["iter_in"] == 0)
    overwrite = g["overwrite"] != 0
    yield from _where(
        index,
        empty
        | (overwrite & (g["reset"] != 0))
        | (overwrite & (not config.has(Capability.GEMM_OVERWRITE))),
        "V10",
    )
    yield from _windows(stream, config)
    index, a = stream.index[Opcode.ALU], stream.columns[Opcode.ALU]
    empty = (a["iter_out"] == 0) | (a["iter_in"] == 0) | (a["reset"] != 0)
    absent = [op for op, needed in VALUE_NEEDS[AluOp].items() if not config.has(needed)]
    lacks = np.isin(a["alu_op"], [*absent, *[AluOp.SHR] * config.is_float])
    rq = a["alu_op"] == AluOp.RQ
    yield from _where(index, empty | lacks | (rq & (a["use_imm"] != 0)), "V10")


def _windows(stream: Stream, config: HwConfig) -> Iterator[Violation]:
    index, d = stream.index[Opcode.DEPTHWISE], stream.columns[Opcode.DEPTHWISE]
    most = {4: 1, 8: 2}.get(config.block, 3)
    bad = (d["iter_out"] == 0) | (d["iter_in"] == 0)
    bad |= (d["rows"] < 1) | (d["rows"] > most) | (d["columns"] < 1) | (d["columns"] > 3)
    bad |= (d["overwrite"] != 0) & (not config.has(Capability.GEMM_OVERWRITE))
    yield from _where(index, bad | (not config.has(Capability.DEPTHWISE)), "V10")


def _micro_ops(
    stream: Stream, config: HwConfig, regions: Sequence[MemoryRegion]
) -> Iterator[Violation]:
    """V11 and V12, in the order of the stream, with the micro-ops that are in the scratchpad."""
    uops = np.full((config.depth(Memory.UOP), 3), -1, np.int64)
    sources = [decode_uops(r.data[: len(r.data) // UOP_BYTES * UOP_BYTES], config) for r in regions]
    for number, opcode in enumerate(stream.opcode.tolist()):
        if opcode not in (Opcode.LOAD, Opcode.GEMM, Opcode.ALU, Opcode.DEPTHWISE):
            continue
        kind = Opcode(opcode)
        row = int(np.searchsorted(stream.index[kind], number))
        values = {name: int(column[row]) for name, column in stream.columns[kind].items()}
        if kind == Opcode.LOAD:
            if values["memory_id"] == Memory.UOP and values["region"] < len(regions):
                begin, size = values["dram_base"], values["x_size"]
                table = sources[values["region"]][begin : begin + size]
                target = uops[values["sram_base"] : values["sram_base"] + size]
                target[: len(table)] = table[: len(target)]
            continue
        used = uops[values["uop_bgn"] : values["uop_end"]]
        if not len(used) or values["uop_end"] > len(uops) or (used[:, 0] < 0).any():
            yield number, "V11"
            return
        if _reaches_beyond(kind, values, used.max(axis=0).tolist(), config):
            yield number, "V12"
            return


def _reaches_beyond(kind: Opcode, v: dict[str, int], largest: list[int], config: HwConfig) -> bool:
    acc = config.depth(Memory.ACC)
    gemm = kind in (Opcode.GEMM, Opcode.DEPTHWISE)
    depths = (acc, config.depth(Memory.INP) if gemm else acc, config.depth(Memory.WGT))
    window = 0
    if kind == Opcode.DEPTHWISE:
        v = {**v, "wgt_in": 0}
        window = (v["rows"] - 1) * v["row_stride"] + v["columns"] - 1
    behind = (0, 2 if not gemm and v["alu_op"] == AluOp.RQ else window, 0)
    for k, name in enumerate(("dst", "src", "wgt") if gemm else ("dst", "src")):
        last = (
            largest[k]
            + (v["iter_out"] - 1) * v[f"{name}_out"]
            + (v["iter_in"] - 1) * v[f"{name}_in"]
            + behind[k]
        )
        if last >= depths[k]:
            return True
    return False


def _configs(stream: Stream, config: HwConfig) -> Iterator[Violation]:
    index, c = stream.index[Opcode.CONFIG], stream.columns[Opcode.CONFIG]
    register, value = c["register_id"], c["value"]
    pad = register == ConfigRegister.PAD_VALUE
    stores = (c["stage"] == Stage.STORE) & config.has(Capability.STORE_REQUANTIZE)
    exists = (c["stage"] == Stage.COMPUTE) | ((c["stage"] == Stage.LOAD) & pad) | (stores & ~pad)
    limit = 1 << (8 * config.element_bytes - 1)
    bad = (pad & ((value < -limit) | (value >= limit))) | (
        (register == ConfigRegister.RQ_ROUNDING) & ((value < 0) | (value > 2))
    )
    yield from _where(
        index, np.full(index.size, not config.has(Capability.CONFIG)) | ~exists | bad, "V13"
    )


# --- tokens ---------------------------------------------------------------------------------------
def _stages(stream: Stream) -> Indices:
    stage = np.full(len(stream), int(Stage.COMPUTE), np.int64)
    stage[stream.index[Opcode.STORE]] = Stage.STORE
    stage[stream.index[Opcode.CONFIG]] = stream.columns[Opcode.CONFIG]["stage"]
    of_memory = np.array([LOAD_STAGE[memory] for memory in Memory], np.int64)
    stage[stream.index[Opcode.LOAD]] = of_memory[stream.columns[Opcode.LOAD]["memory_id"]]
    return stage


def _flag(stream: Stream, name: str) -> npt.NDArray[np.bool_]:
    column = np.zeros(len(stream), bool)
    for opcode, index in stream.index.items():
        column[index] = stream.columns[opcode][name] != 0
    return column


def _tokens(stream: Stream, count: int) -> Iterator[Violation]:
    """V14 to V16. Clocks: what another stage s has before number clock[i][s] has certainly happened
    when instruction i begins."""
    stage = _stages(stream)
    flags = {name: _flag(stream, name) for name in TOKEN_FLAGS}
    yield from _queueless(stage, flags)
    pushes, pops = _pushes_and_pops(stage, flags)
    pusher_of: dict[int, list[int]] = {}
    for queue, popping in pops.items():
        pushing = pushes[queue]
        unserved = popping[pushing.size :]
        early = popping[: pushing.size][pushing[: popping.size] >= popping[: pushing.size]]
        yield from ((int(at), "V14") for at in [*unserved[:1], *early[:1]])
        for push, pop in zip(pushing.tolist(), popping.tolist(), strict=False):
            pusher_of.setdefault(pop, []).append(push)
    yield from _overflows(stage, pushes, pops, pusher_of)
    if len(stream) == count:
        if any(pushes[q].size > pops[q].size for q in pushes):
            yield count - 1, "V15"
        yield from _undrained(stage, flags, count - 1)


def _queueless(stage: Indices, flags: TokenFlags) -> Iterator[Violation]:
    """Flags that are about a neighbour which the stage does not have."""
    everywhere = np.arange(len(stage))
    for s in Stage:
        for name in TOKEN_FLAGS:
            if (s, name) not in _QUEUES:
                yield from _where(everywhere, flags[name] & (stage == s), "V14")


def _pushes_and_pops(stage: Indices, flags: TokenFlags) -> tuple[QueueUses, QueueUses]:
    """The instructions that push to each queue, and those that pop from it, in order."""

    def uses(stage_of: Stage, flag: str) -> Indices:
        return np.flatnonzero((stage == stage_of) & flags[flag])

    pushes = {queue: uses(queue.pusher, queue.push) for queue in TOKEN_QUEUES}
    return pushes, {queue: uses(queue.popper, queue.pop) for queue in TOKEN_QUEUES}


def _overflows(
    stage: Indices, pushes: QueueUses, pops: QueueUses, pusher_of: dict[int, list[int]]
) -> Iterator[Violation]:
    """Pushes that may find 255 tokens waiting."""
    clock = np.zeros((len(stage), 3), np.int64)
    latest = np.zeros((3, 3), np.int64)
    for i, s in enumerate(stage.tolist()):
        now = latest[s].copy()
        for push in pusher_of.get(i, []):
            if push < i:
                now = np.maximum(now, clock[push])
                now[stage[push]] = max(now[stage[push]], push + 1)
        clock[i] = latest[s] = now
    for queue, pushing in pushes.items():
        popper = int(queue.popper)
        certainly = np.searchsorted(pops[queue], clock[pushing, popper], side="left")
        late = np.flatnonzero(np.arange(pushing.size) - certainly >= MAX_TOKENS)
        if late.size:
            yield int(pushing[late[0]]), "V14"


def _undrained(stage: Indices, flags: TokenFlags, last: int) -> Iterator[Violation]:
    for s, name in ((Stage.LOAD, "push_next"), (Stage.STORE, "push_prev")):
        mine = np.flatnonzero(stage == s)
        if mine.size and not flags[name][mine[-1]]:
            yield last, "V16"
