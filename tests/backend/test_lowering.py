# SPDX-License-Identifier: Apache-2.0
"""backend/lowering.py: operators that a back end says as computations or as schedules, and what
each lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from loadstone.backend.interface import Phase
from loadstone.backend.lowering import passes_of, with_copies
from loadstone.backend.template.backend import MyNpu
from loadstone.conformance.cases import OPERATORS
from loadstone.errors import LoweringError, VerificationError
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.pipeline import Passes
from loadstone.ir_pass.to_tir import tensor_ir
from loadstone.passes.log import VERIFY, PassLog
from loadstone.relax.compat import parsed_tir, tvm

DENSE = OPERATORS["dense"](np.random.default_rng(1)).operators[0]
SUM = """\
func dense:
  local acc: int32[1] x1x16
  param x: int8[4] x1x16
  param w: int8[4] x16x16
  param out: int8[1] x1x16
  fill(acc[0] | 0)
  gemm(acc[0], x[k], w[k]) for k<4
  copy(out[0], acc[0])
"""
SUM_WITH_COPIES = """\
func dense:
  param x: int8[4] x1x16
  param w: int8[4] x16x16
  param out: int8[1] x1x16
  alloc acc: int32[1] x1x16 in sums
  fill(acc[0] | 0)
  alloc x_chip: int8[4] x1x16 in rows
  copy(x_chip[a0], x[a0]) for a0<4
  alloc w_chip: int8[4] x16x16 in rows
  copy(w_chip[a0], w[a0]) for a0<4
  gemm(acc[0], x_chip[k], w_chip[k]) for k<4
  copy(out[0], acc[0])
"""


class Computing(MyNpu):
    """The template, with a computation for dense layers. passed: its passes over loops."""

    passed: tuple[Callable[[Any], Any], ...] = ()

    def __init__(self, rows: int) -> None:
        super().__init__()
        operands = {"fill": ("sums",), "gemm": ("sums", "rows")}
        self.memories = MemoryTable(operands, {"sums": 1, "rows": rows}, result="sums")

    def computations(self) -> Mapping[str, Callable[[Any], Function]]:
        return {"dense": lambda _: parsed(SUM)}

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        return self.passed if phase is Phase.LOOPS else ()


def test_copies_are_inserted_by_the_back_ends_memories() -> None:
    assert printed(with_copies(Computing(rows=4), DENSE)) == SUM_WITH_COPIES
    with pytest.raises(LoweringError, match="4 tiles of x do not fit rows, which holds 3"):
        with_copies(Computing(rows=3), DENSE)


def test_a_log_keeps_what_the_passes_made() -> None:
    log = PassLog(DENSE.name, texts=True)
    with_copies(Computing(rows=4), DENSE, log)
    texts = {run.name: run.text() for run in log.runs if run.text is not None}
    assert texts == {"computation": SUM, "insert_dma_copy": SUM_WITH_COPIES}


@pytest.mark.parametrize("verify", ["0", "1"])
def test_copies_are_verified_in_every_compile(verify: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row too few is loaded of the weights."""
    spoilt = parsed(SUM_WITH_COPIES.replace("w[a0]) for a0<4", "w[a0]) for a0<3"))
    monkeypatch.setattr("loadstone.ir_pass.pipeline.insert_dma_copy", lambda *_, **__: spoilt)
    monkeypatch.setenv(VERIFY, verify)
    with pytest.raises(VerificationError, match="w_chip was loaded in part"):
        with_copies(Computing(rows=4), DENSE)


def test_an_operator_that_a_back_end_does_not_say_is_named() -> None:
    wanted = "back end my-npu: no computation and no schedule for dense; it has them for nothing"
    with pytest.raises(LoweringError, match=wanted):
        with_copies(MyNpu(), DENSE)


def test_a_computation_needs_memories() -> None:
    backend = Computing(rows=4)
    backend.memories = None
    with pytest.raises(LoweringError, match=r"for dense and no memories: set them by MemoryTable"):
        with_copies(backend, DENSE)


class Scheduling(Computing):
    """The same, whose dense layers are TensorIR."""

    def computations(self) -> Mapping[str, Callable[[Any], Function]]:
        return {}

    def schedules(self) -> Mapping[str, Callable[[Any], Any]]:
        return {"dense": lambda _: tensor_ir(parsed(SUM), self.memories)}  # type: ignore[arg-type]


def test_a_schedule_gets_its_copies_as_a_computation_does() -> None:
    log = PassLog(DENSE.name)
    assert printed(with_copies(Scheduling(rows=4), DENSE, log)) == SUM_WITH_COPIES
    assert [run.name for run in log.runs] == ["schedule", "loops", "nests", "insert_dma_copy"]


def test_passes_see_a_computation_as_tensor_ir() -> None:
    """The last of the tiles is never summed, because a pass makes the loop shorter."""
    backend, seen = Computing(rows=4), list[str]()

    def shorter(module: Any) -> Any:
        seen.append(module["main"].script())
        text = seen[0].replace("T.grid(4, 1, 16, 16)", "T.grid(3, 1, 16, 16)")
        return tvm.IRModule({"main": parsed_tir(text)})

    backend.passed = (shorter,)
    text = printed(with_copies(backend, DENSE))
    assert "T.call_pure_extern" not in seen[0]
    assert 'acc = T.alloc_local((1, 1, 16), "int32")' in seen[0]
    assert "gemm(acc[0], x_chip[k], w_chip[k]) for k<3\n" in text
    assert "copy(x_chip[a0], x[a0]) for a0<3\n" in text
    assert passes_of(backend.passes) == Passes(loops=backend.passed)
