# SPDX-License-Identifier: Apache-2.0
"""PRELU of TFLite on int8: as its kernel computes it, which rounds twice.

In:   the operator; the Converter of tflite.py.
Out:  of one slope the real numbers of a table, which partition/patterns/elementwise.py reads as a
      Lookup; of several the output's integers, in operations of Relax on integers.
Next: tflite.py quantizes the former, and has the latter already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.tflite_integers import Integers, Stateful, grid
from loadstone.numerics import Array, quantize_multiplier, requantize_double
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["prelu"]


def prelu(converter: Stateful) -> Expr | None:
    """Real numbers to be quantized; None where the output has its integers."""
    x, slopes = (converter.file.tensors[index] for index in converter.record.inputs)
    y = converter.file.tensors[converter.record.outputs[0]]
    scales = tuple(np.float32(grid(tensor)[0]) for tensor in (x, slopes, y))
    # LiteRT divides in float32
    ratio, slope_ratio = float(scales[0] / scales[2]), float(scales[0] * scales[1] / scales[2])
    if slopes.data is not None and np.all(slopes.data == slopes.data.flat[0]):
        distance = np.arange(-128, 128, dtype=np.int64) - grid(x)[1]
        slope = int(slopes.data.flat[0]) - grid(slopes)[1]
        positive = requantize_double(distance, *quantize_multiplier(ratio))
        negative = requantize_double(distance * slope, *quantize_multiplier(slope_ratio))
        steps = np.where(distance >= 0, positive, negative)
        return _taken(converter, steps.astype(np.float32) * scales[2])
    integers, bb = Integers(converter.bb), converter.bb
    offsets = [grid(tensor)[1] for tensor in (x, slopes, y)]
    wide, factor = (
        bb.emit(relax.op.subtract(integers.wide(converter.stored(index)), integers.number(offset)))
        for index, offset in zip(converter.record.inputs, offsets, strict=False)
    )
    positive = integers.scaled(wide, ratio)
    negative = integers.scaled(bb.emit(relax.op.multiply(wide, factor)), slope_ratio)
    above = bb.emit(relax.op.greater_equal(wide, integers.number(0)))
    chosen = bb.emit(relax.op.where(above, positive, negative))
    moved = bb.emit(relax.op.add(chosen, integers.number(offsets[2])))
    converter.give(y.index, integers.limited(moved, "int8"))
    return None


def _taken(converter: Stateful, table: Array) -> Expr:
    """The entry of (256,) real numbers that belongs to each of the input's integers, as
    frontend/tables.py writes it."""
    bb, (scale, offset) = converter.bb, grid(converter.file.tensors[converter.record.inputs[0]])
    steps = bb.emit(relax.op.divide(converter.real(0), constant(np.float32(scale))))
    whole = bb.emit(relax.op.astype(bb.emit(relax.op.round(steps)), "int32"))
    index = bb.emit(relax.op.add(whole, constant(np.int32(offset + 128))))
    return relax.op.take(constant(table), index, axis=0)
