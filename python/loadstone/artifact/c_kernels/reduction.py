# SPDX-License-Identifier: Apache-2.0
"""Sums and products over axes, and L2 normalization, in C.

In:   ReduceSum, ReduceProduct or L2Normalize, a Body.
Out:  its statements.
Next: __init__.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body, grid, row_major
from loadstone.numerics import Array, quantize_multiplier

__all__ = ["l2_normalize", "reduce_product", "reduce_sum", "reduced"]


def reduced(shape: Sequence[int], axes: Sequence[int]) -> tuple[Array, Array]:
    """(first element of each result, places of what it is made of behind that), both int32 of one
    axis; the first of `axes` moves slowest."""
    strides = row_major(shape)

    def offsets(chosen: Sequence[int]) -> Array:
        places = np.zeros([shape[axis] for axis in chosen], np.int32)
        for position, axis in enumerate(chosen):
            steps = np.arange(shape[axis], dtype=np.int32) * strides[axis]
            places += steps.reshape([-1 if k == position else 1 for k in range(len(chosen))])
        return places.reshape(-1)

    return offsets([axis for axis in range(len(shape)) if axis not in axes]), offsets(axes)


def reduce_sum(o: g.ReduceSum, body: Body) -> None:
    """The sum of integers, requantized once."""
    starts, offsets = reduced(o.input.shape, o.axes)
    multiplier, shift = quantize_multiplier(
        np.float64(grid(o.input).scale) / np.float64(grid(o.output).scale)
    )
    double = body.helper("lds_double")
    value = f"{double}((int32_t)(uint32_t)(uint64_t)sum, {int(multiplier)}, {int(shift)})"
    body.add(f"""
int32_t k, i;
for (k = 0; k < {starts.size}; ++k) {{
  int64_t sum = (int64_t){offsets.size} * {-o.input.zero_point};
  for (i = 0; i < {offsets.size}; ++i)
    sum += x0[{body.constant(starts)}[k] + {body.constant(offsets)}[i]];
  y[k] = {body.clamped(f"(int64_t){value} + ({o.output.zero_point})", -128, 127)};
}}
""")


def reduce_product(o: g.ReduceProduct, body: Body) -> None:
    """A requantization of 15 bits behind every factor; the low 32 bits of each."""
    starts, offsets = reduced(o.input.shape, o.axes)
    count = offsets.size
    scales = float(np.float32(grid(o.input).scale)), float(np.float32(grid(o.output).scale))
    multiplier, shift = quantize_multiplier(scales[0] / math.pow(scales[1], 1 / count))
    wide = int(multiplier)
    narrow = (wide + (1 << 15)) >> 16 if wide < 0x7FFF0000 else 0x7FFF
    product = f"factor * {narrow} + {1 << (14 - int(shift))}"
    scaled = f"(int32_t)(uint32_t)(uint64_t)(({product}) >> {15 - int(shift)})"
    start, place = body.constant(starts), body.constant(offsets)
    centred = f"(x0[{start}[k] + {place}[{{}}]] - ({o.input.zero_point}))"
    body.add(f"""
int32_t k, i;
for (k = 0; k < {starts.size}; ++k) {{
  int64_t factor = {centred.format(0)};
  for (i = 1; i < {count}; ++i) {{
    factor *= {centred.format("i")};
    factor = {scaled};
  }}
  factor = {scaled};
  y[k] = {body.clamped(f"factor + ({o.output.zero_point})", -128, 127)};
}}
""")


def l2_normalize(o: g.L2Normalize, body: Body) -> None:
    """Each row times the reciprocal of its length."""
    depth = o.input.shape[-1]
    root, double = body.helper("lds_inverse_root"), body.helper("lds_double")
    at = f"(x0[k * {depth} + i] - ({o.input.zero_point}))"
    scaled = f"{at} * 128, root, bits" if o.unsigned else f"{at}, root, bits + 7"
    body.add(f"""
int32_t k, i;
for (k = 0; k < {prod(o.input.shape[:-1])}; ++k) {{
  int64_t sum = 0;
  int32_t root, bits;
  for (i = 0; i < {depth}; ++i) sum += {at} * {at};
  root = {root}(sum, &bits);
  for (i = 0; i < {depth}; ++i)
    y[k * {depth} + i] = {body.clamped(f"{double}({scaled})", -128, 127)};
}}
""")
