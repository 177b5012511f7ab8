# SPDX-License-Identifier: Apache-2.0
"""Pools and means in C.

In:   AveragePool2D, MaxPool2D or Mean, a Body.
Out:  its statements.
Next: __init__.py.
"""

from __future__ import annotations

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body, c_real, grid
from loadstone.artifact.c_kernels.reduction import reduced
from loadstone.graph.kernels.onnx import mean_scale
from loadstone.graph.kernels.tflite import mean_multiplier
from loadstone.numerics import Rounding

__all__ = ["average_pool2d", "max_pool2d", "mean"]


def average_pool2d(o: g.AveragePool2D, body: Body) -> None:
    """The sum of integers, rounded once."""
    if o.rounding is Rounding.FLOAT32:
        begin, zero = "int32_t sum = 0, count = 0;", o.input.zero_point
        padded = "++count;" if o.count_include_pad else ""
        scale = f"{c_real(o.input.scale)} / ((float)count * {c_real(o.output.scale)})"
        value = f"{body.helper('lds_even')}((float)sum * ({scale}))"
        end = body.clamped(f"(int64_t){value} + ({o.output.zero_point})", o.low, o.high)
    else:
        offset = 128 if o.unsigned else 0
        begin, padded, zero = "int32_t sum = 0, count = 0;", "", -offset
        half = "(sum < 0 ? -((count / 2 - sum) / count) : (sum + count / 2) / count)"
        end = body.clamped(f"(int64_t){half} - {offset}", o.low, o.high)
    _windows(o, body, begin, f"sum += {{x}} - ({zero}); ++count;", padded, end)


def max_pool2d(o: g.MaxPool2D, body: Body) -> None:
    """Padded taps never win."""
    end = body.clamped("best", o.low, o.high)
    _windows(o, body, "int32_t best = -128;", "if ({x} > best) best = {x};", "", end)


def _windows(o: g.Pool2D, body: Body, begin: str, inside: str, padded: str, end: str) -> None:
    """begin, inside (for each tap {x}), padded (for each tap beside the image), end: the value."""
    n, height, width, channels = o.input.shape
    _, rows, columns, _ = o.output.shape
    tap = inside.format(x=f"x0[((n * {height} + iy) * {width} + ix) * {channels} + c]")
    beside = f"{{ {padded} continue; }}" if padded else "continue;"
    body.add(f"""
int32_t n, y0, x_, c, ky, kx;
for (n = 0; n < {n}; ++n)
  for (y0 = 0; y0 < {rows}; ++y0)
    for (x_ = 0; x_ < {columns}; ++x_)
      for (c = 0; c < {channels}; ++c) {{
        {begin}
        for (ky = 0; ky < {o.kernel[0]}; ++ky)
          for (kx = 0; kx < {o.kernel[1]}; ++kx) {{
            const int32_t iy = y0 * {o.strides[0]} - {o.padding[0]} + ky;
            const int32_t ix = x_ * {o.strides[1]} - {o.padding[1]} + kx;
            if (iy < 0 || iy >= {height} || ix < 0 || ix >= {width}) {beside}
            {tap}
          }}
        y[((n * {rows} + y0) * {columns} + x_) * {channels} + c] = {end};
      }}
""")


def mean(o: g.Mean, body: Body) -> None:
    """The sum of integers over any axes, requantized once."""
    starts, offsets = reduced(o.input.shape, o.axes)
    count = offsets.size
    if o.rounding is Rounding.FLOAT32:
        scale = c_real(mean_scale(count, grid(o.input), grid(o.output)))
        value = f"{body.helper('lds_even')}((float)(int32_t)sum * {scale})"
    else:
        lanes = mean_multiplier(count, grid(o.input), grid(o.output))
        value = f"{body.helper('lds_double')}(sum, {lanes[0]}, {lanes[1]})"
    body.add(f"""
int32_t k, i;
for (k = 0; k < {starts.size}; ++k) {{
  int64_t sum = 0;
  for (i = 0; i < {count}; ++i) sum += x0[{body.constant(starts)}[k] + {body.constant(offsets)}[i]];
  sum -= (int64_t){count} * ({o.input.zero_point});
  y[k] = {body.clamped(f"(int64_t){value} + ({o.output.zero_point})", o.low, o.high)};
}}
""")
