# SPDX-License-Identifier: Apache-2.0
"""ir_pass/from_tir.py: what to_tir.py writes is read as it was, of all kernels of some networks;
what TVM's own primitives schedule is read; what is no perfect nest is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.conformance.draw import convolution, grid
from loadstone.errors import LoweringError
from loadstone.graph import Conv2D, Tensor
from loadstone.ir_pass.from_tir import has_copies, nests_of
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.pipeline import TO_LOOPS, text_of_function, with_copies
from loadstone.ir_pass.to_tir import prim_func
from loadstone.numerics import Rounding, rq, shift_lane
from loadstone.relax.compat import parsed_tir, tvm
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.operators import kernels
from loadstone.vta.stream.operations import DramTile
from tests.ir_pass.scheduled_conv import scheduled
from tests.passes.networks import residual_block
from tests.repeat import more
from tests.vta.stream.meaning import execute

TABLE = MemoryTable(
    {"fill": ("acc",), "gemm": ("acc", "inp", "wgt"), "max": ("acc",), "rq": ("acc",)},
    {"inp": 400, "wgt": 64, "acc": 256},
    {("rq", 1): 3},
)
SUM = """\
func rows:
  table w: int8[3] x16x16
  param x: int8[12, 9] x1x16
  local acc: int32[4] x1x16
  param out: int8[10] x1x16
  for t<3:
    group:
      fill(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0
      gemm(acc[i], x[4*t + i, j - 1 else -3], w[j]) for i<4 j<3 if -4*t - i + 9 >= 0
    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
"""
NETWORKS = [
    pytest.param("block", "vtaq-1x16x16"),
    pytest.param("block", "vta-pynq"),
    pytest.param("mlpt_resnet8_int8.tflite", "vtaq-4x16x16"),
    pytest.param("mlonmcu_micro_kws_m_int8.tflite", "vta-pynq"),
    pytest.param("mlpt_ad_int8.tflite", "vtaq-1x16x16", marks=more),
    pytest.param("tinyengine_mcunet_det_int8.tflite", "vta-pynq", marks=more),
    pytest.param("coral_deeplab_mnv2_dm05.tflite", "vtaq-4x16x16", marks=more),
]


def written(text: str) -> str:
    """A function's TensorIR, as text."""
    return text_of_function(prim_func(parsed(text), TABLE))


def read(text: str) -> str:
    """TensorIR's nests, as text."""
    return printed(nests_of(parsed_tir(text), TABLE))


def without_pads_that_are_never_read(function: Function) -> str:
    """Its text; the pad of an access that is always inside is nobody's, and tensors of one name
    have numbers."""
    return re.sub(r"_\d+\b| else -?\d+(?=\])", "", printed(function))


@pytest.mark.parametrize(("network", "device"), NETWORKS)
def test_every_kernel_of_a_network_is_read_as_it_was_written(
    network: str,
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Before and after its copies are inserted; and of the function read, the same are inserted."""
    seen: dict[str, tuple[Function, Function]] = {}

    def kept(computation: Function, *rest: Any) -> Function:
        function = with_copies(computation, *rest)
        seen[printed(computation)] = (computation, function)
        return function

    monkeypatch.setattr(kernels, "with_copies", kept)
    kernels._kernel.cache_clear()
    if network == "block":
        model = tmp_path / "block.tflite"
        model.write_bytes(residual_block())
    else:
        model = request.getfixturevalue("shared") / "models" / network
    compile(model, device)
    table = memory_table(load_config(device))
    assert len(seen) > 1
    plain = without_pads_that_are_never_read
    for computation, function in seen.values():
        for each in (computation, function):
            assert plain(nests_of(prim_func(each, table), table)) == plain(each)
        again = insert_dma_copy(nests_of(prim_func(computation, table), table), table)
        assert plain(again) == plain(function)


def test_roles_levels_groups_and_pads_come_back() -> None:
    assert read(written(SUM)) == SUM
    apart = SUM.replace("for t<3:", "for t<3 apart:")
    assert read(written(apart)) == apart
    inserted = printed(insert_dma_copy(parsed(SUM), TABLE))
    assert read(written(inserted)) == inserted


def test_tiles_that_are_all_padding_are_read() -> None:
    """Of the rows that this tile reads none is inside; TVM's simplifier leaves a constant."""
    text = SUM.replace("x[4*t + i, j - 1 else -3]", "x[4*t + i + 12, j - 1 else -3]")
    assert read(written(text)) == text
    loaded = """\
func pads:
  param x: int8[4] x1x16
  param out: int8[2] x1x16
  alloc tile: int8[2] x1x16 in inp
  copy(tile[i], x[i]) for i<2
  copy(tile[1], x[-1 else -3])
"""
    assert read(written(loaded)) == loaded
    simplified = written(loaded).replace("T.if_then_else(T.bool(False), x[-1, lane_b, lane], ", "(")
    assert "if_then_else" not in simplified
    assert read(simplified) == loaded


# --- what TVM schedules -------------------------------------------------------------------------
def conv(seed: int) -> Conv2D:
    rng = np.random.default_rng(seed)
    x = Tensor("x", (1, 7, 9, 32), "int8", grid(rng))
    return convolution(rng, x, 48, "y", Rounding.DOUBLE)


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("seed", [0, 3])
def test_a_schedule_by_tvms_own_primitives_computes_its_operator(seed: int, copies: bool) -> None:
    """With its own cache reads, or without any."""
    config, op = load_config("vtaq-1x16x16"), conv(seed)
    function = with_copies(scheduled(op, 16, 1, copies=copies), memory_table(config))
    kernel = kernel_of_nests(function, config)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    rng = np.random.default_rng(seed)
    pixels = rng.integers(-128, 128, (7, 9, 2, 1, 16)).astype(np.int8)
    (o, kh, kw, c), (_, oh, ow, _) = op.weights.shape, op.output.shape
    weights = op.weights.reshape(o // 16, 16, kh, kw, c // 16, 16).transpose(0, 4, 2, 3, 1, 5)
    scales = np.stack([np.zeros(o), np.full(o, 1 << 30), shift_lane(np.full(o, -8))]).astype(
        np.int32
    )
    dram = {
        "x": pixels.reshape(-1, 1, 16),
        "w": np.ascontiguousarray(weights).reshape(-1, 16, 16),
        "p": scales.reshape(3, -1, 1, 16).transpose(1, 0, 2, 3).reshape(-1, 1, 16),
        "out": np.zeros((oh * ow * o // 16, 1, 16), np.int8),
    }
    execute(emitter.operations, dram, config)
    wanted = reference(op, pixels.reshape(7, 9, 32).astype(np.int64))
    np.testing.assert_array_equal(dram["out"].reshape(oh, ow, o), wanted)


def reference(op: Conv2D, x: Any) -> Any:
    """Where pads are the zero point, and every scale is 2^-9."""
    (top, left, bottom, right), (sy, sx), (dy, dx) = op.padding, op.strides, op.dilation
    padded = np.pad(x, ((top, bottom), (left, right), (0, 0)), constant_values=op.input.zero_point)
    _, oh, ow, o = op.output.shape
    acc = np.zeros((oh, ow, o), np.int64)
    for ky in range(op.weights.shape[1]):
        for kx in range(op.weights.shape[2]):
            part = padded[ky * dy :, kx * dx :][: (oh - 1) * sy + 1 : sy, : (ow - 1) * sx + 1 : sx]
            acc += part @ op.weights[:, ky, kx].astype(np.int64).T
    limits: dict[str, Any] = {"zero_point": op.output.zero_point, "low": op.low, "high": op.high}
    return rq(acc, 0, 1 << 30, shift_lane(-8), **limits, rounding=op.rounding)


def test_a_schedule_says_its_copies_or_gets_them() -> None:
    made = [scheduled(conv(3), 16, 1, copies=copies) for copies in (True, False)]
    found = []
    lowering = tvm.ir.transform.Sequential([transform() for transform in TO_LOOPS])
    for module in map(lowering, made):
        found.append(nests_of(module["main"], memory_table(load_config("vtaq-1x16x16"))))
    assert [has_copies(function) for function in found] == [True, False]


def test_a_loop_that_does_not_begin_at_zero_is_refused() -> None:
    text = written(SUM).replace("for t in T.serial(3,", "for t in T.serial(1, 3,")
    with pytest.raises(LoweringError, match=r"the loop t runs from 1 for 2 turns: it must run"):
        read(text)


def test_a_condition_with_an_else_is_refused() -> None:
    text = written(printed(insert_dma_copy(parsed(SUM), TABLE)))
    store = "acc[i, lane_b, lane] = 0"
    both = f"{store}\n                else:\n                    {store[:-1]}1"
    with pytest.raises(LoweringError, match="neither a loop, nor a condition without an else"):
        read(text.replace(store, both))
