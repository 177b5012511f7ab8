# SPDX-License-Identifier: Apache-2.0
"""ir_pass/c_source.py: a convolution as C calls of a library, compiled strictly and compared with
NumPy."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.backend.lowering import with_copies
from loadstone.backend.template.backend import MyNpu
from loadstone.conformance.draw import convolution, grid
from loadstone.errors import LoweringError
from loadstone.graph import Tensor
from loadstone.graph.kernels.windows import convolve
from loadstone.ir_pass.c_source import PREAMBLE, c_source
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.numerics import Rounding
from tests.ir_pass.scheduled_conv import scheduled

CALLS = {"copy": "npu_copy", "gemm": "npu_matmul", "fill": "npu_set", "rq": "npu_scale"}
STRICT = ("cc", "-std=c99", "-pedantic", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
#: A library of four functions that know nothing of convolutions. int8 or int32 is what the pointers
#: say (_Generic is C11: two copies).
LIBRARY = """
#define EACH(body) do { int64_t at[8] = {0}; int done = 0; \\
  for (int32_t k = 0; k < n; k++) { at[k] = loops[k].first; done |= loops[k].first >= loops[k].last; } \\
  while (!done) { int64_t o[4] = {0}; int inside = 1; \\
    for (int32_t k = 0; k < n; k++) { inside &= at[k] >= loops[k].inside_first && at[k] < loops[k].inside_last; \\
      for (int32_t s = 0; s < 4; s++) { o[s] += at[k] * loops[k].strides[s]; } } \\
    (void)inside; body; int32_t k = n - 1; \\
    while (k >= 0 && ++at[k] >= loops[k].last) { at[k] = loops[k].first; k--; } done = k < 0; } } while (0)
static void copy8(int8_t *y, const int8_t *x, int32_t pad, int32_t n, const lds_loop_t *loops) {
  EACH(y[o[0]] = inside ? x[o[1]] : (int8_t)pad);
}
static void copy32(int32_t *y, const int32_t *x, int32_t pad, int32_t n, const lds_loop_t *loops) {
  EACH(y[o[0]] = inside ? x[o[1]] : pad);
}
static void store(int8_t *y, const int32_t *x, int32_t pad, int32_t n, const lds_loop_t *loops) {
  EACH(y[o[0]] = inside ? (int8_t)x[o[1]] : (int8_t)pad);
}
#define npu_copy(y, x, ...) (sizeof(*(y)) == sizeof(*(x)) ? (sizeof(*(y)) == 1 ? copy8((void *)(y), (const void *)(x), __VA_ARGS__) \\
  : copy32((void *)(y), (const void *)(x), __VA_ARGS__)) : store((void *)(y), (const void *)(x), __VA_ARGS__))
static void npu_matmul(int32_t *y, const int8_t *x, const int8_t *w, int32_t n, const lds_loop_t *loops) {
  EACH(y[o[0]] += x[o[1]] * w[o[2]]);
}
static void npu_set(int32_t *y, int32_t value, int32_t n, const lds_loop_t *loops) { EACH(y[o[0]] = value); }
static void npu_scale(int32_t *y, const int32_t *bias, const int32_t *multiplier, const int32_t *shift, int32_t zero, int32_t low,
                      int32_t high, int32_t rounding, int32_t n, const lds_loop_t *loops) {
  EACH(int64_t v = (((int64_t)y[o[0]] + bias[o[1]]) * multiplier[o[2]] >> shift[o[3]]) + zero;
       y[o[0]] = (int32_t)(v < low ? low : v > high ? high : v));
  (void)rounding;
}
"""


TABLE = MemoryTable(
    {"fill": ("acc",), "gemm": ("acc", "inp", "wgt"), "rq": ("acc",)},
    {"acc": 4096, "inp": 4096, "wgt": 4096},
    {("rq", 1): 3},
)


class Scheduled(MyNpu):
    """The template, with a schedule for convolutions."""

    memories = TABLE

    def schedules(self) -> Mapping[str, Callable[[Any], Any]]:
        return {"conv2d": lambda conv: scheduled(conv, dim=8, rows=1, copies=False)}


def operator(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = Tensor("x", (1, 7, 9, 16), "int8", grid(rng))
    return convolution(rng, x, 32, "y", Rounding.DOUBLE)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_calls_compute_the_convolution(tmp_path: Path, seed: int) -> None:
    op = operator(seed)
    function = with_copies(Scheduled(), op)
    text = c_source(function, TABLE, "layer", ("npu.h",), CALLS)
    (tmp_path / "npu.h").write_text(PREAMBLE.split("static inline")[0] + LIBRARY, encoding="utf-8")
    (tmp_path / "layer.c").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [*STRICT, tmp_path / "layer.c", "-o", tmp_path / "layer.so"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, op.input.shape).astype(np.int8)
    o, kh, kw, c = op.weights.shape
    blocks = op.weights.reshape(o // 8, 8, kh, kw, c // 8, 8).transpose(0, 4, 2, 3, 1, 5)
    weights = np.ascontiguousarray(blocks)
    lanes = np.stack(
        [rng.integers(-99, 99, 32), rng.integers(1, 9, 32), rng.integers(10, 14, 32)]
    ).astype(np.int32)
    y = np.zeros(op.output.shape, np.int8)
    tables = np.ascontiguousarray(lanes.reshape(3, o // 8, 8).transpose(1, 0, 2))
    ctypes.CDLL(str(tmp_path / "layer.so")).layer(
        *(ctypes.c_void_p(a.ctypes.data) for a in (x, weights, tables, y))
    )
    # pads read the zero point: shift it away, and back through the sum of the weights
    zero = op.input.zero_point
    acc = convolve(
        x.astype(np.int64) - zero,
        op.weights.astype(np.int64),
        strides=op.strides,
        padding=op.padding,
        dilation=op.dilation,
    )
    acc = acc + zero * op.weights.astype(np.int64).sum(axis=(1, 2, 3))
    want = np.clip(
        ((acc + lanes[0]) * lanes[1] >> lanes[2]) + op.output.zero_point, op.low, op.high
    )
    assert len(np.unique(want)) > 20
    np.testing.assert_array_equal(y, want)


def test_a_call_without_a_function_is_named() -> None:
    function = with_copies(Scheduled(), operator(0))
    calls = {name: text for name, text in CALLS.items() if name != "rq"}
    with pytest.raises(
        LoweringError,
        match=r"the library has no function for rq; it has them for copy, gemm, fill",
    ):
        c_source(function, TABLE, "layer", (), calls)
