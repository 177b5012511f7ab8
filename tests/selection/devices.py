# SPDX-License-Identifier: Apache-2.0
"""The systolic array of docs/examples, small, and Gemmini, for the tests of instruction selection.

In:   nothing.
Out:  its table, its meanings, a chooser; texts of nests with copies.
Next: the tests beside it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from loadstone.backend.plugins import load_plugins
from loadstone.isa.accelerator import Port
from loadstone.isa.table import InstructionTable
from loadstone.selection.choose import Chooser
from loadstone.selection.meanings import Meanings
from tests.conftest import ROOT
from tests.passes.networks import plugins

__all__ = [
    "DENSE",
    "DENSE_WITHOUT_COPIES",
    "chooser",
    "gemmini",
    "meanings",
    "table",
    "with_meaning",
]


@cache
def table() -> InstructionTable:
    """Four lanes."""
    accelerator = plugins().backends["systolic"](dim=4).accelerator
    assert accelerator is not None
    return accelerator.table


@cache
def gemmini() -> InstructionTable:
    """The example whose settings stand in registers."""
    found = load_plugins([ROOT / "docs/examples/gemmini"], installed=False)
    accelerator = found.backends["gemmini"]().accelerator
    assert accelerator is not None
    return accelerator.table


@cache
def meanings() -> Meanings:
    """Those of the example."""
    return Meanings(table())


def chooser() -> Chooser:
    """With the example's port."""
    return Chooser(meanings(), Port())


def with_meaning(form: str, *texts: str) -> InstructionTable:
    """The table in which an instruction means something else."""
    forms = tuple(
        replace(each, meaning=texts) if each.name == form else each for each in table().forms
    )
    return replace(table(), forms=forms)


#: A dense layer of 8 inputs and 4 outputs, on three samples.
DENSE_WITHOUT_COPIES = """\
func dense:
  param p: int32[1, 3] x1x4
  local acc: int32[3, 1] x1x4
  param x: int8[3, 2] x1x4
  param w: int8[1, 2, 4] x1x4
  param out: int8[3, 1] x1x4
  fill(acc[i, 0] | 0) for i<3
  for k0<2:
    gemm(acc[i, 0], x[i, k0], w[0, k0, 0]) for i<3
  rq(acc[i, 0], p[0, 0] | 5, -128, 127, 0) for i<3
  copy(out[i, 0], acc[i, 0]) for i<3
"""
DENSE = """\
func dense:
  param p: int32[1, 3] x1x4
  param x: int8[3, 2] x1x4
  param w: int8[1, 2, 4] x1x4
  param out: int8[3, 1] x1x4
  alloc acc: int32[3, 1] x1x4 in accumulator
  fill(acc[i, 0] | 0) for i<3
  for k0<2:
    alloc x_chip: int8[3, 1] x1x4 in scratchpad
    copy(x_chip[a0, 0], x[a0, k0]) for a0<3
    alloc w_chip: int8[1, 1, 4] x1x4 in scratchpad
    copy(w_chip[0, 0, a2], w[0, k0, a2]) for a2<4
    gemm(acc[i, 0], x_chip[i, 0], w_chip[0, 0, 0]) for i<3
  alloc p_chip: int32[1, 3] x1x4 in accumulator
  copy(p_chip[0, a1], p[0, a1]) for a1<3
  rq(acc[i, 0], p_chip[0, 0] | 5, -128, 127, 0) for i<3
  copy(out[i, 0], acc[i, 0]) for i<3
"""
