# SPDX-License-Identifier: Apache-2.0
"""Operators that a proof takes as they are: softmax, and the ends between levels and real numbers.

In:   rows of symbols, and a name that holds all constants of an operator.
Out:  symbols that are the same for the same rows and the same name.
Next: operators of the network and steps of the host, which must agree in both.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.values import Values

__all__ = ["RowFunctions"]


class RowFunctions:
    """Operators that a proof takes as they are: equal names on equal rows are equal."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._known: dict[tuple[object, ...], Integers] = {}

    def of(self, name: tuple[object, ...], rows: Integers) -> Integers:
        """Symbols of an operator's output, a row for each row (n, depth). name: the operator and
        all that it depends on besides."""
        keys = [(*name, *row) for row in rows.tolist()]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        n = len(new) * rows.shape[1]
        made = self.values.opaque(np.full(n, -128), np.full(n, 127))
        self._known.update(zip(new, made.reshape(len(new), rows.shape[1]), strict=True))
        return np.stack([self._known[key] for key in keys])
