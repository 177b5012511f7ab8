# SPDX-License-Identifier: Apache-2.0
"""Operators that make a byte of one byte, or of two.

In:   add, sub, mul, requantize, table, channel_table, concat with tables.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FIRST, SECOND, FunctionKind
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.values import CONSTANTS, NO_SOURCE

__all__ = ["channel_function", "function", "mapped", "of_two"]


def mapped(elements: Elements, symbols: Integers, table: Integers) -> Integers:
    """Symbols of table[byte + 128] of symbols, in their shape; table (256,): bytes."""
    if (table == np.arange(-128, 128)).all():
        return symbols
    flat = symbols.reshape(-1)
    fixed = flat < CONSTANTS
    made = np.zeros(len(flat), np.int64)
    made[fixed] = table[(flat[fixed] ^ 128)] & 255
    sources, kids = elements.values.origin(flat[~fixed])
    number = np.full((len(kids), 1), elements.values.functions.table(table))
    functions = elements.values.functions.make(FunctionKind.TABLE, number, kids[:, None])
    made[~fixed] = elements.define(sources, functions)
    return made.reshape(symbols.shape)


def function(elements: Elements, operator: ModelOperator) -> None:
    """requantize and table."""
    table = attribute(operator, "table", np.ndarray).astype(np.int64)
    symbols = elements.symbols(operator.inputs[0])
    taken = elements.taken(operator.outputs[0])
    elements.put(operator.outputs[0], mapped(elements, symbols, table - taken))


def channel_function(elements: Elements, operator: ModelOperator) -> None:
    """channel_table: a table for each place of an axis."""
    tables = attribute(operator, "table", np.ndarray).astype(np.int64)
    tables = tables - elements.taken(operator.outputs[0])
    axis = attribute(operator, "axis", int)
    channels = np.moveaxis(elements.symbols(operator.inputs[0]), axis, 0)
    made = [mapped(elements, x, table) for x, table in zip(channels, tables, strict=True)]
    elements.put(operator.outputs[0], np.moveaxis(np.stack(made), 0, axis))


def of_two(elements: Elements, operator: ModelOperator) -> None:
    """add, sub and mul: a table of two levels."""
    table = attribute(operator, "table", np.ndarray).astype(np.int64)
    table = table - elements.taken(operator.outputs[0])
    shape = elements.tensor(operator.outputs[0]).shape
    a, b = (
        np.broadcast_to(elements.symbols(k), shape).reshape(-1).copy() for k in operator.inputs[:2]
    )
    made = np.zeros(len(a), np.int64)
    fixed = [symbols < CONSTANTS for symbols in (a, b)]
    both = fixed[0] & fixed[1]
    made[both] = table[a[both] ^ 128, b[both] ^ 128] & 255
    # One that is constant leaves a function of the other, of which there are 256 at most.
    for k, symbols in enumerate((a, b)):
        other = (b, a)[k]
        alone = fixed[1 - k] & ~fixed[k]
        for value in np.unique(other[alone]).tolist():
            at = alone & (other == value)
            row = table[:, value ^ 128] if k == 0 else table[value ^ 128]
            made[at] = mapped(elements, symbols[at], row)
    rest = ~(fixed[0] | fixed[1])
    same = rest & (a == b)
    made[same] = mapped(elements, a[same], np.diagonal(table).copy())
    at = np.flatnonzero(rest & (a != b))
    made[at] = _pairs(elements, a[at], b[at], elements.values.functions.table(table))
    elements.put(operator.outputs[0], made)


def _pairs(elements: Elements, a: Integers, b: Integers, table: int) -> Integers:
    values = elements.values
    sources = [values.origin(symbols)[0] for symbols in (a, b)]
    if NO_SOURCE in sources[0]:
        raise AssertionError("elements of the network are symbols of their own")
    in_order = sources[0] < sources[1]
    pairs = values.pairs(np.minimum(*sources), np.maximum(*sources))
    kids = np.where(in_order[:, None], [FIRST, SECOND], [SECOND, FIRST])
    number = np.full((len(a), 1), table)
    functions = values.functions.make(FunctionKind.TABLE_OF_TWO, number, kids)
    return elements.define(pairs, functions)
