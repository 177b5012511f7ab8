# SPDX-License-Identifier: Apache-2.0
"""Operators that a proof takes as they are: softmax, and the ends between levels and real numbers.

In:   rows of symbols, and a name that holds all constants of an operator.
Out:  symbols that are the same for the same rows and the same name.
Next: operators of the network and steps of the host, which must agree in both.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.keys import RowNumbers
from loadstone.prove.tables import Growing
from loadstone.prove.values import Values

__all__ = ["RowFunctions"]


class RowFunctions:
    """Operators that a proof takes as they are: equal names on equal rows are equal."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._known: dict[tuple[object, ...], tuple[RowNumbers, Growing]] = {}

    def of(self, name: tuple[object, ...], rows: Integers, width: int = 0) -> Integers:
        """Symbols (n, width) of an operator's output, a row for each row (n, depth); width 0: as
        deep. name: the operator and all that it depends on besides."""
        depth = rows.shape[1]
        width = width or depth
        held = RowNumbers(depth, np.int32), Growing(width, np.int32)
        numbers, symbols = self._known.setdefault((name, depth, width), held)
        which = numbers.enter(rows)
        new = numbers.data.shape[1] - symbols.count
        made = self.values.opaque(np.full(new * width, -128), np.full(new * width, 127))
        symbols.extend(made.reshape(new, width).T)
        return np.asarray(symbols.data[:, which].T, np.int64)
