# SPDX-License-Identifier: Apache-2.0
"""Pools and means: their patterns, and the operators of graph/ for them.

In:   quantize(relu? (avg_pool2d | max_pool2d | mean (dequantize(x)))).
Out:  AveragePool2D, MaxPool2D, Mean.
Next: partition/patterns/__init__.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loadstone.graph import AveragePool2D, MaxPool2D, Mean
from loadstone.graph.base import Fields
from loadstone.partition.patterns.forms import dq, op, tail
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import integers

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern, Expr

__all__ = ["average_pool2d", "max_pool2d", "mean", "pool_pattern"]


def pool_pattern(relax_name: str) -> Callable[[], DFPattern]:
    """One operator between dequantize and quantize."""
    return lambda: tail(op(relax_name)(dq()))


def average_pool2d(reader: Reader, root: Call) -> AveragePool2D:
    """Raises Mismatch for a dilated window or channels first."""
    call, fields = _pool(reader, root)
    return AveragePool2D(
        **fields, count_include_pad=bool(call.attrs.count_include_pad), unsigned=reader.unsigned
    )


def max_pool2d(reader: Reader, root: Call) -> MaxPool2D:
    """Raises Mismatch for a dilated window or channels first."""
    return MaxPool2D(**_pool(reader, root)[1])


def _pool(reader: Reader, root: Call) -> tuple[Expr, Fields]:
    inner, low, high = reader.tail(root)
    call = reader.call(inner)
    attrs = call.attrs
    source, output = reader.source(call.args[0]), reader.output(root)
    if str(attrs.layout) != "NHWC" or integers(attrs.dilation) != (1, 1):
        raise Mismatch(f"its layout is {attrs.layout} and its dilation {integers(attrs.dilation)}")
    if 0 in output.shape:
        raise Mismatch("its window is larger than its padded input")
    kernel, strides = integers(attrs.pool_size), integers(attrs.strides)
    top, left, bottom, right = integers(attrs.padding)
    # ceil_mode: the last window may extend beyond the edge; additional padding has the same effect
    # in the formula without ceil
    more = [
        max(
            0,
            (output.shape[1 + axis] - 1) * strides[axis]
            + kernel[axis]
            - source.shape[1 + axis]
            - pads,
        )
        for axis, pads in ((0, top + bottom), (1, left + right))
    ]
    return call, {
        "name": output.name,
        "inputs": (source,),
        "outputs": (output,),
        "kernel": (kernel[0], kernel[1]),
        "strides": (strides[0], strides[1]),
        "padding": (top, left, bottom + more[0], right + more[1]),
        "low": low,
        "high": high,
        "rounding": reader.rounding,
    }


def mean(reader: Reader, root: Call) -> Mean:
    """Over any axes."""
    inner, low, high = reader.tail(root)
    call = reader.call(inner)
    source, output = reader.source(call.args[0]), reader.output(root)
    rank = len(source.shape)
    axes = (
        range(rank)
        if call.attrs.axis is None
        else (axis % rank for axis in integers(call.attrs.axis))
    )
    return Mean(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        axes=tuple(sorted(axes)),
        low=low,
        high=high,
        rounding=reader.rounding,
    )
