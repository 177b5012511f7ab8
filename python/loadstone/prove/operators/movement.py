# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements and change none.

In:   reshape, transpose, pad, slice, concat, resize_nearest.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.operators.elementwise import mapped

__all__ = ["concat", "pad", "reshape", "resize_nearest", "slice_", "transpose"]


def reshape(elements: Elements, operator: ModelOperator) -> None:
    """reshape: the same elements."""
    elements.put(operator.outputs[0], elements.symbols(operator.inputs[0]))


def transpose(elements: Elements, operator: ModelOperator) -> None:
    """transpose: axes in another order."""
    axes = attribute(operator, "axes", tuple)
    elements.put(operator.outputs[0], elements.symbols(operator.inputs[0]).transpose(axes))


def pad(elements: Elements, operator: ModelOperator) -> None:
    """pad: a level before and after each axis."""
    before, after = attribute(operator, "before", tuple), attribute(operator, "after", tuple)
    byte = attribute(operator, "value", int) - elements.taken(operator.outputs[0]) & 255
    x = elements.symbols(operator.inputs[0])
    around = list(zip(before, after, strict=True))
    elements.put(operator.outputs[0], np.pad(x, around, constant_values=byte))


def slice_(elements: Elements, operator: ModelOperator) -> None:
    """slice: every so many elements from some on."""
    x = elements.symbols(operator.inputs[0])
    begin, strides = attribute(operator, "begin", tuple), attribute(operator, "strides", tuple)
    shape = elements.tensor(operator.outputs[0]).shape
    counts = shape if len(shape) == x.ndim else attribute(operator, "counts", tuple)
    where = [b + np.arange(n) * s for b, n, s in zip(begin, counts, strides, strict=True)]
    elements.put(operator.outputs[0], x[np.ix_(*where)])


def concat(elements: Elements, operator: ModelOperator) -> None:
    """concat: inputs behind each other, some of them requantized."""
    tables = operator.attributes["tables"]
    assert isinstance(tables, tuple | list)
    taken = elements.taken(operator.outputs[0])
    parts = []
    for number, table in zip(operator.inputs, tables, strict=True):
        symbols = elements.symbols(number)
        if table is not None:
            symbols = mapped(elements, symbols, np.asarray(table, np.int64) - taken)
        parts.append(symbols)
    axis = attribute(operator, "axis", int)
    elements.put(operator.outputs[0], np.concatenate(parts, axis))


def resize_nearest(elements: Elements, operator: ModelOperator) -> None:
    """resize_nearest: rows and columns of the input."""
    x = elements.symbols(operator.inputs[0])
    axis = 1 if attribute(operator, "layout", str) == "NHWC" else 2
    rows = np.asarray(operator.attributes["rows"], np.int64)
    columns = np.asarray(operator.attributes["columns"], np.int64)
    elements.put(operator.outputs[0], x.take(rows, axis).take(columns, axis + 1))
