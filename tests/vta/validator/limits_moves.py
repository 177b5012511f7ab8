# SPDX-License-Identifier: Apache-2.0
"""Limits of LOAD and STORE: V3 to V9.

In:   one_instruction.py: programs that are about one instruction.
Out:  `moves`: rows for them.
Next: limits.py has all rules together.
"""

from __future__ import annotations

import dataclasses
from itertools import product

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.insn import Finish, Load, Store
from loadstone.vta.isa.spec import Capability, Memory
from tests.vta.validator.limit_rows import Rows
from tests.vta.validator.one_instruction import (
    ARENA,
    GROUPS,
    INPUT,
    INTEGERS,
    MICRO_OPS,
    PLANES,
    RESULT,
    STORING,
    TILES,
    TO_INP,
    WHOLE,
    Case,
    having,
    load,
    moved,
    poked,
    store,
    without,
)

PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
#: What a STORE has in their place.
_IDLE = dict.fromkeys(("region", "y_size", "x_size"), 0)
#: Memories whose LOADs have rows of their own, below.
_PACKED = (Memory.WGT_4BIT, Memory.WGT_PLANES)
OPERANDS = ("operands", "operand_step", "requantize")


def moves(rows: Rows) -> None:
    """Rows of V3 to V9."""
    _shapes(rows)
    _in_dram(rows)
    _in_scratchpads(rows)
    _groups(rows)
    _planes(rows)


def _shapes(rows: Rows) -> None:
    """V3, V4, V5, and V9."""
    bad = Case((poked(load(Memory.ACC), "memory_id", Memory.OUT), Finish()))
    rows.switch("V3", "LOAD of OUT", moved(load(Memory.ACC)), bad, "sr")
    rows.switch("V3", "STORE of ACC", moved(store()), moved(store(memory_id=Memory.ACC)), "sr")
    idle = dict.fromkeys(("region", "y_size", "x_size"), 0)
    nothing, unstored = load(Memory.INP, **idle), store(**idle, memory_id=Memory.UOP)
    rows.switch("V3", "a no-op of OUT", moved(unstored), Case((load(Memory.OUT, **idle), Finish())))
    rows.switch(
        "V3", "a STORE of no WGT", moved(unstored), moved(store(**idle, memory_id=Memory.WGT))
    )
    for insn in (nothing, unstored, store(**idle)):
        own = PADS if isinstance(insn, Load) else OPERANDS
        for name in ("sram_base", "dram_base", "region", "y_size", "x_stride", *own):
            other = moved(having(insn, **{name: 1}))
            title = f"{name} of a no-op, {insn.SPEC.name} of {Memory(insn.memory_id).name}"
            rows.switch("V4", title, moved(insn), other)
    for insn in (load(Memory.INP), store()):
        _no_rows(rows, insn)
    uops = load(Memory.UOP)
    rows.switch("V5", "rows of micro-ops", moved(uops), moved(load(Memory.UOP, y_size=2)))
    rows.switch("V5", "no row of micro-ops", moved(uops), moved(load(Memory.UOP, y_size=0)))
    for insn in (uops, load(Memory.WGT)):
        for name in PADS:
            padded = moved(having(insn, **{name: 1}))
            rows.switch("V5", f"{name} of LOAD {insn.memory_id.name}", moved(insn), padded)
    _requantized(rows)
    _to_inp(rows)
    _whole(rows)
    lesser = without(Capability.LOAD_ACC8)
    for title, insn in {
        "ACC_8BIT": load(Memory.ACC_8BIT),
        "ACC_8BIT, a no-op": load(Memory.ACC_8BIT, **idle),
    }.items():
        rows.switch("V5", title, moved(insn), moved(insn, config=lesser), "sr")
    rows.switch(
        "V9", "micro-ops of no constants", moved(uops), moved(load(Memory.UOP, region=INPUT))
    )


def _requantized(rows: Rows) -> None:
    """STOREs that requantize: V5 and V8."""
    for name in OPERANDS:
        bad = moved(store(**{name: 1}))
        rows.switch("V5", f"{name} without store_requantize", moved(store()), bad, "sr")
    made = store(requantize=1, operands=1)
    fine = moved(made, config=STORING)
    for name in OPERANDS[:2]:
        bad = moved(store(**{name: 1}), config=STORING)
        rows.switch("V5", f"{name} without requantize", fine, bad, "sr")
    idle = having(made, region=0, y_size=0, x_size=0, operands=0)
    nothing = moved(having(idle, requantize=0), config=STORING)
    rows.switch("V4", "a no-op that requantizes", nothing, moved(idle, config=STORING))
    depth = STORING.depth(Memory.ACC)
    for steps, count in ((0, 3), (1, 3), (0, 2), (1, 2)):
        last = depth - (3 * count if steps else 3)

        def beyond(more: int, steps: int = steps, count: int = count, last: int = last) -> Case:
            insn = having(made, y_size=count, operand_step=steps, operands=last + more)
            return moved(insn, config=STORING)

        rows.limit("V8", f"operands of {count} rows, step {steps}", beyond, "sr")

    def deep(more: int) -> Case:
        insn = having(made, y_size=2 + more, operand_step=1, operands=depth - 6)
        return moved(insn, config=STORING)

    rows.limit("V8", "rows with operands of their own", deep, "sr")


def _to_inp(rows: Rows) -> None:
    """STOREs to INP: V3, V4, V5 and V8. Rows of two tiles, three apart."""
    made = store(memory_id=Memory.INP, region=0, y_size=3, x_size=2, x_stride=3)
    fine = moved(made, config=TO_INP)
    rows.switch("V3", "STORE to INP without store_inp", moved(store()), moved(made), "sr")
    other = moved(having(made, memory_id=Memory.WGT), config=TO_INP)
    rows.switch("V3", "STORE to WGT", fine, other, "sr")
    idle = having(made, x_size=0, y_size=0, x_stride=0)
    nothing = moved(having(idle, memory_id=Memory.OUT), config=TO_INP)
    rows.switch("V3", "a no-op that stores to INP", nothing, moved(idle, config=TO_INP))
    named = moved(having(made, region=ARENA), config=TO_INP)
    rows.switch("V5", "a region of a STORE to INP", fine, named, "sr")
    requantizing = having(made, requantize=1)
    without_rq = dataclasses.replace(
        TO_INP, capabilities=TO_INP.capabilities & ~Capability.STORE_REQUANTIZE
    )
    bad = moved(requantizing, config=without_rq)
    rows.switch("V5", "requantized to INP", moved(requantizing, config=TO_INP), bad, "sr")
    rows.limit(
        "V5", "rows to INP", lambda more: moved(having(made, y_size=1 - more), config=TO_INP)
    )
    inp, acc = TO_INP.depth(Memory.INP), TO_INP.depth(Memory.ACC)
    for name, last in (("dram_base", inp - 8), ("x_stride", (inp - 2) // 2), ("y_size", 1)):
        start = {"dram_base": inp - 2} if name == "y_size" else {}

        def beyond(
            more: int, name: str = name, last: int = last, start: dict[str, int] = start
        ) -> Case:
            value = max(1, last + more) if name == "y_size" else last + more
            return moved(having(made, **{**start, name: value}), config=TO_INP)

        rows.limit("V8", f"{name} in INP", beyond, "sr")
    far = having(made, dram_base=(1 << 32) - 1)
    rows.switch("V8", "the last dram_base to INP", fine, moved(far, config=TO_INP), "sr")
    rows.limit(
        "V8",
        "what is stored to INP",
        lambda more: moved(having(made, sram_base=acc - 6 + more), config=TO_INP),
        "sr",
    )
    rows.limit(
        "V8",
        "operands of a STORE to INP",
        lambda more: moved(having(requantizing, operands=acc - 3 + more), config=TO_INP),
        "sr",
    )


def _whole(rows: Rows) -> None:
    """STOREs of whole accumulators, whose tiles have four times the bytes: V3 to V8."""
    made = store(memory_id=Memory.ACC)
    fine = moved(made, config=WHOLE)
    rows.switch("V3", "STORE of ACC without store_acc", fine, moved(made, config=STORING), "sr")
    for other in (Memory.WGT, Memory.INP):
        bad = moved(having(made, memory_id=other), config=WHOLE)
        rows.switch("V3", f"STORE of {other.name} with store_acc", fine, bad, "sr")
    idle = having(made, x_size=0, y_size=0, region=0)
    nothing = moved(having(idle, memory_id=Memory.OUT), config=WHOLE)
    rows.switch("V3", "a no-op that stores ACC", nothing, moved(idle, config=WHOLE))
    plain = moved(store(requantize=1), config=WHOLE)
    bad = moved(having(made, requantize=1), config=WHOLE)
    rows.switch("V5", "requantized whole accumulators", plain, bad, "sr")
    rows.limit("V5", "rows of ACC", lambda more: moved(having(made, y_size=1 - more), config=WHOLE))
    for region in (MICRO_OPS, INPUT, ARENA + 1):
        bad = moved(having(made, region=region), config=WHOLE)
        rows.switch("V6", f"STORE of ACC to region {region}", fine, bad, "sr")
    size, tiles = WHOLE.tile_bytes(Memory.ACC), TILES * WHOLE.align_bytes
    tiles //= size

    def limit(rule: str, name: str, value: int, **more: int) -> None:
        def make(beyond: int) -> Case:
            few = {"arena_bytes": 4 * size} if value == 4 else {}
            return moved(having(made, **{name: value + beyond, **more}), config=WHOLE, **few)

        rows.limit(rule, f"{name} of STORE ACC {more}", make, "sr")

    limit("V7", "dram_base", tiles - 1)
    limit("V7", "dram_base", tiles - 2, x_size=2)
    limit("V7", "dram_base", tiles - 7, x_stride=3, y_size=3)
    limit("V7", "x_size", 4)
    limit("V7", "y_size", 4, x_stride=1)
    limit("V7", "x_stride", tiles - 1, y_size=2)
    rows.limit(
        "V7",
        "bytes of STORE ACC",
        lambda more: moved(having(made, x_size=2), config=WHOLE, arena_bytes=2 * size - more),
        "sr",
    )
    depth = WHOLE.depth(Memory.ACC)
    limit("V8", "sram_base", depth - 1)
    limit("V8", "x_size", 3, sram_base=depth - 3)
    limit("V8", "y_size", 3, sram_base=depth - 6, x_size=2)


def _no_rows(rows: Rows, insn: Load | Store) -> None:
    name = f"rows of a {insn.SPEC.name}"
    rows.limit("V5", name, lambda more: moved(having(insn, y_size=1 - more)))


def _in_dram(rows: Rows) -> None:
    """V6 and V7."""
    rows.limit(
        "V6", "a region to load", lambda more: moved(load(Memory.INP, region=ARENA + more)), "sr"
    )
    plain = [memory for memory in Memory if memory not in _PACKED]
    for number, memory in product((ARENA + 1, 7), plain):
        insn = store() if memory == Memory.OUT else load(memory)
        bad = moved(having(insn, region=number))
        rows.switch("V6", f"{memory.name} of no region {number}", moved(insn), bad, "sr")
    bad = moved(load(Memory.INP, region=RESULT))
    rows.switch("V6", "LOAD of what the device may not read", moved(load(Memory.INP)), bad)
    for region in (MICRO_OPS, INPUT):
        bad = moved(store(region=region))
        rows.switch("V6", f"STORE to region {region}", moved(store()), bad, "sr")
    poor = without(Capability.REGIONS, load_config("vta-pynq"))
    for insn in (load(Memory.INP), store()):
        # The runtime adds the place of a region for such a device.
        bad = moved(insn, config=poor)
        rows.switch("", f"a region without regions, {insn.SPEC.name}", moved(insn), bad, "sr")
    for memory in (Memory.WGT, Memory.INP, Memory.ACC, Memory.ACC_8BIT):
        _in_a_region(rows, load(memory))
    _in_a_region(rows, store())
    depth = INTEGERS.uop_depth
    rows.limit(
        "V7", "dram_base of UOP", lambda m: moved(load(Memory.UOP, dram_base=depth - 1 + m)), "sr"
    )
    rows.limit(
        "V7",
        "micro-ops from the second one on",
        lambda more: moved(load(Memory.UOP, dram_base=1, x_size=depth - 1 + more)),
        "sr",
    )


def _in_a_region(rows: Rows, insn: Load | Store) -> None:
    title = f"of {insn.SPEC.name} {Memory(insn.memory_id).name}"
    size = INTEGERS.tile_bytes(Memory(insn.memory_id))
    tiles = TILES * INTEGERS.align_bytes // size

    def limit(name: str, value: int, **more: int) -> None:
        def make(beyond: int) -> Case:
            few = {"arena_bytes": 4 * size} if value == 4 else {}
            return moved(having(insn, **{name: value + beyond, **more}), **few)

        rows.limit("V7", f"{name} {title} {more}", make, "sr")

    limit("dram_base", tiles - 1)
    limit("dram_base", tiles - 2, x_size=2)
    limit("dram_base", tiles - 7, x_stride=3, y_size=3)
    limit("x_size", 4)
    limit("y_size", 4, x_stride=1)
    limit("x_stride", tiles - 1, y_size=2)
    rows.limit(
        "V7",
        f"bytes {title}",
        lambda beyond: moved(having(insn, x_size=2), arena_bytes=2 * size - beyond),
        "sr",
    )


def _in_scratchpads(rows: Rows) -> None:
    """V8."""
    for memory in Memory:
        if memory not in _PACKED:
            _in_scratchpad(rows, memory)


def _groups(rows: Rows) -> None:
    """LOADs of WGT_4BIT, with blocks of 16: V5 to V8."""
    insn = load(Memory.WGT_4BIT)
    fine = moved(insn, config=GROUPS)
    for title, of in {"a LOAD": insn, "a no-op": load(Memory.WGT_4BIT, **_IDLE)}.items():
        lesser = moved(of, config=without(Capability.WEIGHTS4, GROUPS))
        rows.switch("V5", f"WGT_4BIT without weights4, {title}", fine, lesser, "sr")
        for name in PADS:
            rule = "V5" if of is insn else "V4"
            padded = moved(having(of, **{name: 1}), config=GROUPS)
            rows.switch(rule, f"{name} of WGT_4BIT, {title}", fine, padded, "sr")
    bad = moved(having(insn, region=ARENA + 1), config=GROUPS)
    rows.switch("V6", "WGT_4BIT of no region", fine, bad, "sr")

    def limit(rule: str, name: str, value: int, **more: int) -> None:
        def make(beyond: int) -> Case:
            return moved(having(insn, **{name: value + beyond, **more}), config=GROUPS)

        rows.limit(rule, f"{name} of WGT_4BIT {more}", make, "sr")

    # 2,048 bytes of a region are 64 steps of 32 bytes, of which a group takes nine.
    limit("V7", "dram_base", 55)
    limit("V7", "dram_base", 46, x_size=2)
    limit("V7", "dram_base", 64 - 9 * 7, x_stride=3, y_size=3)
    limit("V7", "x_size", 7, dram_base=1)
    limit("V7", "y_size", 7, x_stride=1, dram_base=1)
    limit("V7", "x_stride", 6, y_size=2, dram_base=1)
    depth = GROUPS.depth(Memory.WGT)
    limit("V8", "sram_base", depth - 2)
    limit("V8", "sram_base", depth - 6, x_size=3)
    limit("V8", "x_size", 3, sram_base=depth - 7)
    limit("V8", "y_size", 3, sram_base=depth - 7)


def _planes(rows: Rows) -> None:
    """LOADs of WGT_PLANES, with blocks of 16: V5 to V8."""
    insn = load(Memory.WGT_PLANES)
    fine = moved(insn, config=PLANES)
    for title, of in {"a LOAD": insn, "a no-op": load(Memory.WGT_PLANES, **_IDLE)}.items():
        lesser = moved(of, config=without(Capability.WEIGHT_CODE, PLANES))
        rows.switch("V5", f"WGT_PLANES without weight_code, {title}", fine, lesser, "sr")
        for name in (*PADS, "x_stride"):
            rule = "V5" if of is insn else "V4"
            padded = moved(having(of, **{name: 1}), config=PLANES)
            rows.switch(rule, f"{name} of WGT_PLANES, {title}", fine, padded, "sr")
    bad = moved(having(insn, region=ARENA + 1), config=PLANES)
    rows.switch("V6", "WGT_PLANES of no region", fine, bad, "sr")

    def limit(rule: str, name: str, value: int, **more: int) -> None:
        def make(beyond: int) -> Case:
            return moved(having(insn, **{name: value + beyond, **more}), config=PLANES)

        rows.limit(rule, f"{name} of WGT_PLANES {more}", make, "sr")

    # 2,048 bytes of a region are 256 words, however many tiles they are.
    limit("V7", "dram_base", 255)
    limit("V7", "dram_base", 250, x_size=6, y_size=2)
    limit("V7", "x_size", 255, dram_base=1)
    depth = PLANES.depth(Memory.WGT)
    limit("V8", "sram_base", depth - 1)
    limit("V8", "sram_base", depth - 5, y_size=5, x_size=200)
    limit("V8", "y_size", 5, sram_base=depth - 5)


def _in_scratchpad(rows: Rows, memory: Memory) -> None:
    insn: Load | Store = store() if memory == Memory.OUT else load(memory)
    depth = INTEGERS.depth(memory)

    def limit(name: str, value: int, **more: int) -> None:
        def make(beyond: int) -> Case:
            return moved(having(insn, **{name: value + beyond, **more}))

        rows.limit("V8", f"{name} in {memory.name} {more}", make, "sr")

    limit("sram_base", depth - 1)
    limit("sram_base", depth - 3, x_size=3)
    limit("x_size", 4, sram_base=depth - 4)
    if memory == Memory.UOP:
        return
    limit("y_size", 3, sram_base=depth - 3)
    limit("y_size", depth // 2, x_size=2)
    if memory in (Memory.INP, Memory.ACC, Memory.ACC_8BIT):
        for name in PADS:
            limit(name, 2, sram_base=depth - 3)
        limit("x_pad_0", 1, y_pad_1=1, sram_base=depth - 4)
