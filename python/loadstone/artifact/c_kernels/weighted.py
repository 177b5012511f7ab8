"""Convolution and dense layer in C.

In:   Conv2D or Dense, a Body.
Out:  its statements.
Next: __init__.py.
"""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body
from loadstone.numerics import Rounding, onnx_scale, quantize_multiplier

__all__ = ["conv2d", "dense"]


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
