# SPDX-License-Identifier: Apache-2.0
"""Resizes in C.

In:   ResizeNearest or ResizeBilinear, a Body.
Out:  its statements.
Next: __init__.py.

Which samples an output reads, and how much of each, are tables: the framework's own rule made them.
"""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body
from loadstone.artifact.c_kernels.elementwise import dequantized, quantized
from loadstone.graph.kernels import onnx, tflite
from loadstone.graph.kernels.onnx.movement import between
from loadstone.numerics import Array, Rounding

__all__ = ["resize_bilinear", "resize_nearest"]


def _loops(o: g.Resize, body: Body, value: str, head: str = "") -> None:
    n, height, width, channels = o.input.shape
    _, rows, columns, _ = o.output.shape
    body.add(f"""
int32_t n, y0, x_, c;
for (n = 0; n < {n}; ++n) {{
  const {_type(o)} *x = x0 + n * {height * width * channels};
  for (y0 = 0; y0 < {rows}; ++y0)
    for (x_ = 0; x_ < {columns}; ++x_)
      for (c = 0; c < {channels}; ++c) {{
        {head}
        y[((n * {rows} + y0) * {columns} + x_) * {channels} + c] = {value};
      }}
}}
""")


def _type(o: g.Resize) -> str:
    return {"float32": "float"}.get(o.input.dtype, f"{o.input.dtype}_t")


def resize_nearest(o: g.ResizeNearest, body: Body) -> None:
    """A table of rows and one of columns."""
    rules = onnx if o.rounding is Rounding.FLOAT32 else tflite
    flags = {"align_corners": o.align_corners, "half_pixel_centers": o.half_pixel_centers}
    sources = []
    for axis in (1, 2):
        index: Array = np.arange(o.input.shape[axis], dtype=np.int32).reshape(1, -1, 1, 1)
        found = rules.resize_nearest_neighbor(index, (o.output.shape[axis], 1), **flags)
        sources.append(body.constant(np.asarray(found, np.int32).reshape(-1)))
    width, channels = o.input.shape[2:]
    _loops(o, body, f"x[({sources[0]}[y0] * {width} + {sources[1]}[x_]) * {channels} + c]")


def resize_bilinear(o: g.ResizeBilinear, body: Body) -> None:
    """Four samples by weights: integers of 10 bits, or float32."""
    if o.rounding is Rounding.FLOAT32:
        _bilinear_onnx(o, body)
    elif o.unsigned:
        _bilinear_uint8(o, body)
    else:
        _bilinear(o, body)


def _taps(o: g.Resize, body: Body, taps: list[tuple[Array, ...]]) -> tuple[str, str]:
    """The four samples top left, top right, bottom left, bottom right as declarations {type} a, b,
    d, e; the tables' names of weights for y and for x."""
    width, channels = o.input.shape[2:]
    (top, bottom, *down), (left, right, *across) = taps
    rows = [body.constant(np.asarray(entry, np.int32)) for entry in (top, bottom)]
    columns = [body.constant(np.asarray(entry, np.int32)) for entry in (left, right)]
    places = [
        f"x[({row}[y0] * {width} + {column}[x_]) * {channels} + c]"
        for row in rows
        for column in columns
    ]
    names = [body.constant(entry) for entry in (*down, *across)]
    return ", ".join(f"{n} = {{0}}{p}{{1}}" for n, p in zip("abde", places, strict=True)), " ".join(
        names
    )


def _both(o: g.Resize, taps: object) -> list[tuple[Array, ...]]:
    flags = (o.align_corners, o.half_pixel_centers)
    return [taps(o.input.shape[axis], o.output.shape[axis], *flags) for axis in (1, 2)]  # type: ignore[operator]


def _bilinear(o: g.ResizeBilinear, body: Body) -> None:
    samples, weights = _taps(
        o, body, [(*t[:2], t[2].astype(np.int32)) for t in _both(o, tflite.bilinear_taps)]
    )
    down, across = weights.split()
    head = f"""const int64_t {samples.format("", "")};
        const int64_t across = {across}[x_], down = {down}[y0];
        const int64_t upper = a * (1024 - across) + b * across;
        const int64_t lower = d * (1024 - across) + e * across;
        const int64_t sum = upper * (1024 - down) + lower * down;"""
    half = "(1 << 19)"
    rounded = f"(sum < 0 ? -(({half} - sum) >> 20) : (sum + {half}) >> 20)"
    _loops(o, body, body.clamped(rounded, -128, 127), head)


def _bilinear_uint8(o: g.ResizeBilinear, body: Body) -> None:
    taps = [(*t[:2], t[2].astype(np.float32)) for t in _both(o, tflite.bilinear_taps_uint8)]
    samples, weights = _taps(o, body, taps)
    down, across = weights.split()
    head = f"""const float {samples.format("(float)(", " + 128)")};
        const float across = {across}[x_], down = {down}[y0];
        float sum = a * (1.0f - down) * (1.0f - across);
        sum += d * down * (1.0f - across);
        sum += b * (1.0f - down) * across;
        sum += e * down * across;"""
    _loops(o, body, body.clamped("(int64_t)(sum + 0.5f) - 128", -128, 127), head)


def _bilinear_onnx(o: g.ResizeBilinear, body: Body) -> None:
    reals = body.constant(dequantized(o.input))
    taps = [(*t[:2], *(entry.astype(np.float32) for entry in t[2:])) for t in _both(o, between)]
    samples, weights = _taps(o, body, taps)
    up, down, before, after = weights.split()
    head = f"""const float {samples.format(f"{reals}[(uint8_t)", "]")};
        const float up = {up}[y0], down = {down}[y0], before = {before}[x_], after = {after}[x_];
        float sum = before * up * a + after * up * b;
        sum = sum + before * down * d;
        sum = sum + after * down * e;"""
    _loops(o, body, quantized(o, body, "sum", (-128, 127)), head)
