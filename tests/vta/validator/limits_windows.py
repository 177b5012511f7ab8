# SPDX-License-Identifier: Apache-2.0
"""Limits of DEPTHWISE: V1, V2, V10 to V12.

In:   one_instruction.py: programs that are about one instruction, devices with windows.
Out:  `windows_of_lanes`: rows for them.
Next: limits.py has all rules together.
"""

from __future__ import annotations

import dataclasses

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import encode
from loadstone.vta.isa.insn import Finish, Insn
from loadstone.vta.isa.spec import Capability, Memory
from tests.vta.validator.limit_rows import Rows
from tests.vta.validator.one_instruction import (
    EIGHT_LANES,
    FOUR_LANES,
    WINDOWS,
    Case,
    computed,
    depthwise,
    reserved,
    without,
)


def windows_of_lanes(rows: Rows) -> None:
    """All rows."""
    _bits(rows)
    _fields(rows)
    _micro_ops(rows)
    _reach(rows)


def _case(insn: Insn | bytes, config: HwConfig = WINDOWS, **more: object) -> Case:
    return computed(insn, config=config, **more)


def _bits(rows: Rows) -> None:
    """V1 and V2."""
    good = _case(depthwise())
    for bit in reserved(depthwise()):
        word = int.from_bytes(encode(depthwise(), WINDOWS), "little") | 1 << bit
        bad = _case(word.to_bytes(16, "little"))
        rows.switch("V1", f"bit {bit} of DEPTHWISE", good, bad, "sr")
    cut = dataclasses.replace(good, program=[i for i in good.program if i != Finish()])
    rows.switch("V2", "DEPTHWISE at the end", good, cut, "sr")


def _fields(rows: Rows) -> None:
    """V10."""
    for name in ("iter_out", "iter_in"):
        title = f"{name} of DEPTHWISE"
        rows.limit("V10", title, lambda more, name=name: _case(depthwise(**{name: 1 - more})))
    rows.limit(
        "V10",
        "rows of a window, blocks of 8",
        lambda more: _case(depthwise(rows=2 + more), EIGHT_LANES),
        "sr",
    )
    one, two = (_case(depthwise(rows=count), FOUR_LANES) for count in (1, 2))
    rows.switch("V10", "rows of a window, blocks of 4", one, two, "sr")
    rows.limit("V10", "rows of a window", lambda more: _case(depthwise(rows=1 - more)), "sr")
    rows.limit("V10", "columns at least", lambda more: _case(depthwise(columns=1 - more)), "sr")
    good, again = _case(depthwise()), _case(depthwise(overwrite=1))
    plain = without(Capability.DEPTHWISE, WINDOWS)
    rows.switch("V10", "no windows", good, _case(depthwise(), plain), "sr")
    adding = without(Capability.GEMM_OVERWRITE, WINDOWS)
    bad = _case(depthwise(overwrite=1), adding)
    rows.switch("V10", "overwrite of DEPTHWISE", again, bad, "sr")


def _micro_ops(rows: Rows) -> None:
    """V11."""
    depth = WINDOWS.uop_depth

    def using(begin: int, end: int, loaded: int) -> Case:
        return _case(depthwise(uop_bgn=begin, uop_end=end), uops=((0, 0, 0),) * loaded)

    rows.limit(
        "V11",
        "the last micro-op of DEPTHWISE",
        lambda more: using(depth - 2, depth + more, depth),
        "sr",
    )
    rows.limit("V11", "micro-ops that were loaded, DEPTHWISE", lambda more: using(0, 3 + more, 3))


def _reach(rows: Rows) -> None:
    """V12: what micro-ops, loops and the window come to."""
    depth = {"dst": Memory.ACC, "src": Memory.INP, "wgt": Memory.WGT}
    for number, (operand, memory) in enumerate(depth.items()):
        last = WINDOWS.depth(memory) - 1
        uop = tuple(last - 4 if k == number else 0 for k in range(3))

        def limit(name: str, value: int, uop: tuple[int, ...] = uop, **fields: int) -> None:
            def make(more: int) -> Case:
                insn = depthwise(**{**fields, name: value + more}, uop_end=2)
                return _case(insn, uops=((0, 0, 0), (uop[0], uop[1], uop[2])))

            beside = ", ".join(fields)
            rows.limit("V12", f"{name} of DEPTHWISE with {beside}", make, "sr")

        limit(f"{operand}_out", 4, iter_out=2)
        limit("iter_out", 3, **{f"{operand}_out": 2})
        if operand != "wgt":
            limit(f"{operand}_in", 4, iter_in=2)
            limit("iter_in", 3, **{f"{operand}_in": 2})
        if operand == "src":
            limit("row_stride", 2, rows=3)
            limit("columns", 2, src_out=3, iter_out=2)
            limit("rows", 2, src_out=2, iter_out=2, row_stride=2)
