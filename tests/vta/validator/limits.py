# SPDX-License-Identifier: Apache-2.0
"""The limits of every rule of runtime/VALIDATION.md, made from the sizes of a device.

In:   limits_moves.py, limits_compute.py, limits_windows.py; here what is about devices, values and
      tokens.
Out:  `limits()`: by name, a rule, and the program that lies one within, at, or one beyond it.
Next: test_validate_limits.py asks both validators about each, meaning/test_limits.py the others.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from loadstone.vta.isa.codec import encode
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import MAX_TOKENS, AluOp, Capability, ConfigRegister, Memory, Stage
from tests.vta.validator.limit_rows import Rows
from tests.vta.validator.limits_compute import computations
from tests.vta.validator.limits_moves import moves
from tests.vta.validator.limits_windows import windows_of_lanes
from tests.vta.validator.one_instruction import (
    INTEGERS,
    Case,
    alu,
    computed,
    gemm,
    having,
    load,
    moved,
    poked,
    reserved,
    store,
)


def limits() -> Rows:
    """All rows."""
    rows = Rows()
    for fill in (_devices, _values, moves, computations, windows_of_lanes, _tokens):
        fill(rows)
    return rows


def _devices(rows: Rows) -> None:
    """V0, by what the six sizes of a fingerprint leave for the fields of instructions."""
    good = {"batch": 0, "block": 3, "lu": 6, "li": 6, "lw": 6, "la": 6, "width": 3, "depth": 1}

    def possible(limit: dict[str, int], field: str, step: int, more: int) -> Case:
        v = {**good, **limit}
        v[field] += step * more
        lanes, element = v["batch"] + v["block"], v["width"] - 3
        logs = (v["lu"] + 2, v["li"] + lanes + element, v["lw"] + 2 * v["block"] + element)
        sizes = (v["batch"], v["block"], *logs, v["la"] + lanes + 2)
        head = bytes((1, v["width"], v.get("wgt", v["width"]), v.get("acc", 5), *sizes, 0, 0))
        words = (v["depth"], v.get("capabilities", 0))
        tail = b"".join(word.to_bytes(4, "little") for word in words)
        return Case((Finish(),), fingerprint=head + tail + bytes(12))

    limits: list[tuple[str, int, dict[str, int]]] = [
        ("batch", 1, {"batch": 6}),
        ("block", 1, {"block": 7}),
        ("block", -1, {"block": 1}),
        ("lu", 1, {"lu": 13}),
        ("li", 1, {"li": 15}),
        ("lw", 1, {"lw": 15}),
        ("la", 1, {"la": 11, "li": 2, "lw": 2}),
        *((name, -1, {name: 1}) for name in ("lu", "li", "lw", "la")),
        ("lw", 1, {"la": 8, "li": 12, "lw": 12}),
        ("la", 1, {"la": 10, "li": 2, "lw": 12}),
        ("lw", 1, {"la": 11, "li": 2, "lw": 10}),
        ("depth", 1, {"lu": 3, "depth": 8}),
        ("depth", 1, {"lu": 13, "depth": 1 << 13}),
        ("depth", -1, {"depth": 1}),
        ("width", 1, {"width": 4}),
    ]
    for field, step, limit in limits:
        name = f"a device: {field} {'at most' if step > 0 else 'at least'}, {limit}"
        rows.limit("V0", name, partial(possible, limit, field, step), "s")
    windows = int(Capability.DEPTHWISE)
    for field in ("block", "li"):
        limit = {field: 2, "capabilities": windows}
        name = f"a device of windows: {field} at least 2"
        rows.limit("V0", name, partial(possible, limit, field, -1), "s")
    groups = {"capabilities": int(Capability.WEIGHTS4)}
    for step, block in ((-1, 2), (1, 5)):
        name = f"a device of weights4: block {block} the limit"
        rows.limit("V0", name, partial(possible, {"block": block, **groups}, "block", step), "s")
    planes = {"capabilities": int(Capability.WEIGHT_CODE)}
    name = "a device of weight_code: block at least 4"
    rows.limit("V0", name, partial(possible, {"block": 4, **planes}, "block", -1), "s")
    both = int(Capability.REQUANTIZE | Capability.CONFIG)
    for name, bad in {
        "weights of another width": {"wgt": 4},
        "accumulators of 16 bits": {"acc": 4},
        "accumulators of 64 bits": {"acc": 6},
        "elements of 4 bits": {"width": 2},
        "requantization without registers": {"capabilities": int(Capability.REQUANTIZE)},
        "requantization of floats": {"capabilities": both, "width": 4},
        "windows of floats": {"capabilities": windows, "width": 4},
        "groups of floats": {**groups, "width": 4},
        "bit planes of floats": {**planes, "width": 4, "block": 4},
        "requantizing stores alone": {
            "capabilities": int(Capability.STORE_REQUANTIZE | Capability.CONFIG)
        },
        "stores to INP without regions": {"capabilities": int(Capability.STORE_INP)},
        "stores to INP of floats": {
            "capabilities": int(Capability.STORE_INP | Capability.REGIONS),
            "width": 4,
        },
        "whole accumulators of floats": {"capabilities": int(Capability.STORE_ACC), "width": 4},
    }.items():
        right = {
            "requantization without registers": {"capabilities": both},
            "requantizing stores alone": {
                "capabilities": both | int(Capability.STORE_REQUANTIZE),
            },
            "stores to INP without regions": {
                "capabilities": int(Capability.STORE_INP | Capability.REGIONS)
            },
        }
        kept = {field: v for field, v in bad.items() if field not in ("width", "wgt", "acc")}
        fine = right.get(name, kept)
        rows.switch("V0", name, possible(fine, "lu", 0, 0), possible(bad, "lu", 0, 0), "s")


def _values(rows: Rows) -> None:
    """V1 and V2."""
    acc = load(Memory.ACC)

    def memory(more: int) -> Case:
        named = (Memory.ACC, Memory.ACC_8BIT, Memory.WGT_PLANES)[more + 1]
        return Case((poked(acc, "memory_id", named), Finish()))

    def operation(more: int) -> Case:
        return computed(poked(alu(), "alu_op", (AluOp.MUL, AluOp.RQ, 6)[more + 1]))

    def register(more: int) -> Case:
        config = Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING)
        return Case((poked(config, "register_id", ConfigRegister.RQ_ROUNDING + more), Finish()))

    rows.limit("V5", "memory_id: what the device has", memory, "sr")
    rows.limit("V1", "alu_op", operation, "sr")
    rows.limit("V1", "register_id", register, "sr")
    pad = Config(stage=Stage.COMPUTE)
    no_stage = poked(pad, "stage", 3)
    rows.switch("V1", "stage", moved(pad), Case((no_stage, Finish())), "sr")
    bad = computed(poked(gemm(), "opcode", 7))
    rows.switch("V1", "opcode 7", computed(gemm()), bad, "sr")
    for insn in (acc, store(), gemm(), alu(), Finish(), pad):
        kind = insn.SPEC.name
        for bit in reserved(insn):
            word = int.from_bytes(encode(insn, INTEGERS), "little") | 1 << bit
            bad = Case((word.to_bytes(16, "little"), Finish()))
            good = Case((Finish(),)) if kind == "FINISH" else computed(encode(insn, INTEGERS))
            good = moved(insn) if isinstance(insn, Load | Store | Config) else good
            if isinstance(insn, Gemm | Alu):
                bad = computed(word.to_bytes(16, "little"))
            rows.switch("V1", f"bit {bit} of {kind}", good, bad, "sr")
    nothing = Load(memory_id=Memory.UOP)
    fine = Case((nothing, Finish()))
    rows.switch("V2", "FINISH before the last instruction", fine, Case((Finish(), Finish())))
    rows.switch("V2", "another instruction at the end", fine, Case((nothing,)), "sr")
    for kind, case in {
        "LOAD": Case((load(Memory.ACC),)),
        "GEMM": computed(gemm()),
        "ALU": computed(alu()),
        "CONFIG": Case((pad,)),
    }.items():
        cut = dataclasses.replace(case, program=[i for i in case.program if i != Finish()])
        rows.switch("V2", f"{kind} at the end", fine, cut, "sr")


def _tokens(rows: Rows) -> None:
    """V14, V15, and V16."""
    inp, uop = Load(memory_id=Memory.INP), Load(memory_id=Memory.UOP)
    out = Store(memory_id=Memory.UOP)
    give, stored = having(inp, push_next=1), having(out, push_prev=1)
    _tokens_of(rows, "load", give, having(uop, pop_prev=1), inp)
    _tokens_of(rows, "store", stored, having(uop, pop_next=1), out)
    told, end = having(inp, pop_next=1), Finish(pop_prev=1)
    _tokens_for(rows, "load", having(uop, push_prev=1), told, (having(told, push_next=1), end))
    told, end = having(out, pop_prev=1), Finish(pop_next=1)
    _tokens_for(rows, "store", having(uop, push_next=1), told, (having(told, push_prev=1), end))
    for title, insn, flags, end in (
        ("load", give, ("pop_prev", "push_prev"), Finish(pop_prev=1)),
        ("store", stored, ("pop_next", "push_next"), Finish(pop_next=1)),
    ):
        for flag in flags:
            bad = Case((having(insn, **{flag: 1}), end))
            rows.switch("V14", f"{flag} of {title}", Case((insn, end)), bad, "s")


def _tokens_of(rows: Rows, title: str, push: Insn, pop: Insn, quiet: Insn) -> None:
    """What load or store tells compute."""

    def tokens(pushes: int, pops: int, at: int) -> Case:
        return Case((*[push] * pushes, *[pop] * pops, Finish()), at)

    rows.limit(
        "V14",
        f"tokens of {title} that are there",
        lambda more: tokens(min(3, 3 + more), 3 + more, 6),
        "s",
    )
    rows.limit(
        "V14",
        f"tokens of {title} that wait",
        lambda more: tokens(MAX_TOKENS + more, MAX_TOKENS + more, MAX_TOKENS),
        "s",
    )
    rows.limit(
        "V15",
        f"tokens of {title} that are left",
        lambda more: tokens(3 + more, min(3, 3 + more), 7),
    )
    ended = Case((push, pop, Finish()))
    rows.switch("V16", f"{title} at the end", ended, Case((push, pop, quiet, Finish()), at=3))


def _tokens_for(rows: Rows, title: str, push: Insn, pop: Insn, end: tuple[Insn, Insn]) -> None:
    """What compute tells load or store. end: the last pop, which compute waits for."""

    def tokens(more: int) -> Case:
        count = MAX_TOKENS + more
        return Case((*[push] * count, *[pop] * (count - 1), *end), at=MAX_TOKENS)

    rows.limit("V14", f"tokens for {title} that wait", tokens, "s")
