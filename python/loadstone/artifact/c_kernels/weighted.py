# SPDX-License-Identifier: Apache-2.0
"""Convolution, dense layer and the product of two activations in C.

In:   Conv2D, Dense or BatchMatMul, a Body.
Out:  its statements.
Next: __init__.py.
"""

from __future__ import annotations

from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body, grid
from loadstone.numerics import Rounding, onnx_scale, quantize_multiplier

__all__ = ["batch_matmul", "conv2d", "dense"]


def conv2d(o: g.Conv2D, body: Body) -> None:
    """Sums in 32 bits that wrap; taps in the padding contribute nothing."""
    n, height, width, channels = o.input.shape
    _, rows, columns, outputs = o.output.shape
    _, kernel_h, kernel_w, depth = o.weights.shape
    tap = f"(o * {kernel_h} + ky) * {kernel_w} + kx"
    channel = f"o / {outputs // o.groups} * {depth} + i"
    value = f"x0[((n * {height} + iy) * {width} + ix) * {channels} + {channel}]"
    body.add(f"""
int32_t n, y0, x_, o, ky, kx, i;
for (n = 0; n < {n}; ++n)
  for (y0 = 0; y0 < {rows}; ++y0)
    for (x_ = 0; x_ < {columns}; ++x_)
      for (o = 0; o < {outputs}; ++o) {{
        uint32_t sum = (uint32_t)bias[o];
        for (ky = 0; ky < {kernel_h}; ++ky) {{
          const int32_t iy = y0 * {o.strides[0]} - {o.padding[0]} + ky * {o.dilation[0]};
          if (iy < 0 || iy >= {height}) continue;
          for (kx = 0; kx < {kernel_w}; ++kx) {{
            const int32_t ix = x_ * {o.strides[1]} - {o.padding[1]} + kx * {o.dilation[1]};
            if (ix < 0 || ix >= {width}) continue;
            for (i = 0; i < {depth}; ++i)
              sum += (uint32_t)(({value} - {_number(o.input.zero_point)}) *
                                {_weight(o, f"({tap}) * {depth} + i")});
          }}
        }}
        y[((n * {rows} + y0) * {columns} + x_) * {outputs} + o] = {_finish(o, body)};
      }}
""")


def dense(o: g.Dense, body: Body) -> None:
    """As a convolution; TFLite multiplies its sum in double."""
    rows, depth = o.input.shape
    outputs = o.output.shape[1]
    body.add(f"""
int32_t n, o, i;
for (n = 0; n < {rows}; ++n)
  for (o = 0; o < {outputs}; ++o) {{
    uint32_t sum = (uint32_t)bias[o];
    for (i = 0; i < {depth}; ++i)
      sum += (uint32_t)((x0[n * {depth} + i] - {_number(o.input.zero_point)}) *
                        {_weight(o, f"o * {depth} + i")});
    y[n * {outputs} + o] = {_finish(o, body)};
  }}
""")


def batch_matmul(o: g.BatchMatMul, body: Body) -> None:
    """Sums in 32 bits that wrap; a side whose leading axes are 1 is used again."""
    *leading, rows, columns = o.output.shape
    depth = o.inputs[0].shape[-1]
    places = []
    for tensor in o.inputs:
        count = prod(tensor.shape[:-2])
        size = prod(tensor.shape[-2:])
        first = np.arange(count, dtype=np.int32).reshape(tensor.shape[:-2]) * size
        places.append(body.constant(np.broadcast_to(first, leading).reshape(-1)))
    a, b = (grid(tensor) for tensor in o.inputs)
    product = np.float64(np.float32(a.scale) * np.float32(b.scale))
    if o.rounding is Rounding.FLOAT32:
        scale = onnx_scale(a.scale, np.array([b.scale], np.float32), grid(o.output).scale)
        value = f"{body.helper('lds_even')}((float)(int32_t)sum * {body.constant(scale)}[0])"
    else:
        multiplier, shift = quantize_multiplier(product / np.float64(grid(o.output).scale))
        double = body.helper("lds_double")
        value = f"{double}((int32_t)sum, {int(multiplier)}, {int(shift)})"
    second = f"o * {depth} + i" if o.turned else f"i * {columns} + o"
    body.add(f"""
int32_t k, n, o, i;
for (k = 0; k < {prod(leading)}; ++k) {{
  const int8_t *a = x0 + {places[0]}[k], *b = x1 + {places[1]}[k];
  for (n = 0; n < {rows}; ++n)
    for (o = 0; o < {columns}; ++o) {{
      uint32_t sum = 0;
      for (i = 0; i < {depth}; ++i)
        sum += (uint32_t)((a[n * {depth} + i] - {_number(a.zero_point)}) *
                          (b[{second}] - {_number(b.zero_point)}));
      y[(k * {rows} + n) * {columns} + o] =
          {body.clamped(f"(int64_t){value} + {_number(o.output.zero_point)}", o.low, o.high)};
    }}
}}
""")


def _weight(o: g.Weighted, index: str) -> str:
    if not o.weight_zero_points.any():
        return f"weights[{index}]"
    return f"(weights[{index}] - weight_zero_points[o])"


def _finish(o: g.Weighted, body: Body) -> str:
    """The output of the sum `sum` for channel `o`."""
    if o.rounding is Rounding.FLOAT32:
        scales = onnx_scale(o.input.scale, o.weight_scales, o.output.scale)
        scale = body.constant(np.broadcast_to(scales, o.bias.shape))
        value = f"{body.helper('lds_even')}((float)(int32_t)sum * {scale}[o])"
    elif o.rounding is Rounding.SINGLE and isinstance(o, g.Dense):
        scale = body.constant(np.broadcast_to(o.real_scales(), o.bias.shape))
        value = f"{body.helper('lds_away')}((double)(int32_t)sum * {scale}[o])"
    else:
        multiplier, shift = quantize_multiplier(np.broadcast_to(o.real_scales(), o.bias.shape))
        lanes = f"{body.constant(multiplier)}[o], {body.constant(shift)}[o]"
        name = "lds_single" if o.rounding is Rounding.SINGLE else "lds_double"
        value = f"{body.helper(name)}((int32_t)sum, {lanes})"
    return body.clamped(f"(int64_t){value} + {_number(o.output.zero_point)}", o.low, o.high)


def _number(value: int) -> str:
    return f"({value})" if value < 0 else str(value)
