# SPDX-License-Identifier: Apache-2.0
"""Functions of one sum, or of two bytes: what a device makes of them, and what a network wants.

In:   kinds, parameters and arguments of many functions at once, as arrays.
Out:  Functions: numbers of functions, each known once; their values on many points at once.
Next: equality.py decides whether two are equal on all values that can occur.

A function is a tree. Its leaves are the sum (or the two bytes), its nodes what VTA's ALU, its
STORE and the frameworks' kernels do, with the device's wrapping. Functions of one shape differ in
their parameters alone, so that those of all channels of a layer are evaluated side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.keys import RowNumbers, distinct
from loadstone.prove.requantize import Requantizer, double, single, wrapped
from loadstone.prove.tables import Growing

__all__ = ["FIRST", "MAX_PARTS", "SECOND", "FunctionKind", "Functions", "Rule"]

#: Arguments that a SUM can have.
MAX_PARTS = 10
#: A row of a function: kind, how many parameters and arguments, these.
_PARAMETERS = 3
_ARGUMENTS = _PARAMETERS + 2 + MAX_PARTS
_WIDTH = _ARGUMENTS + MAX_PARTS
_FLOAT32_ROUNDING = 2
_ROUNDING = 6  # the parameter of RQ

#: A requantization, and what is taken from its level to have the byte of the device.
Rule: TypeAlias = tuple[Requantizer, int]


class FunctionKind(IntEnum):
    """What a node does with its arguments x, y; in brackets its parameters."""

    INPUT = 0  # the sum, or byte [number]
    SUM = 1  # (x coefficient + y coefficient + ... + c) >> s [c, s, coefficients], 32 bits
    MIN = 2  # [k]
    MAX = 3  # [k]
    SHIFT = 4  # x >> k, to the left for k < 0, 32 bits [k]
    PRODUCT = 5  # x * k, 32 bits [k]
    BYTE = 6  # the low 8 bits, signed
    RQ = 7  # [bias, multiplier, shift lane, zero point, min, max, rounding]
    RULE = 8  # a requantization of the network [number, channel]
    TABLE = 9  # an element of a table, by a byte [number]
    TABLE_OF_TWO = 10  # by two bytes [number]
    MIN_OF_TWO = 11
    MAX_OF_TWO = 12
    PRODUCT_OF_TWO = 13  # 32 bits


FIRST, SECOND = 0, 1


def _static(kind: FunctionKind, parameters: Integers) -> Integers | int:
    """Of parameters (n, p) the one that says more than a number: functions with the same one have
    one shape."""
    match kind:
        case FunctionKind.RQ:
            return parameters[:, _ROUNDING]
        case FunctionKind.INPUT | FunctionKind.RULE:
            return parameters[:, 0]
        case FunctionKind.TABLE | FunctionKind.TABLE_OF_TWO:
            return parameters[:, 0]
        case _:
            return 0


class Functions:
    """All functions of one proof. Arrays of functions hold their numbers."""

    def __init__(self) -> None:
        self._rows = RowNumbers(_WIDTH, np.int64)
        self._shapes = RowNumbers(3 + MAX_PARTS, np.int64)
        self._shape_of = Growing(1, np.int32)
        self.rules: list[Rule] = []
        self.tables: list[Integers] = []
        self.evaluated = 0
        for number in (FIRST, SECOND):
            self.make(FunctionKind.INPUT, np.array([[number]]))

    def rule(self, requantization: Requantizer, taken: int) -> int:
        """The number of a requantization whose levels less `taken` are the device's bytes."""
        self.rules.append((requantization, taken))
        return len(self.rules) - 1

    def table(self, elements: Integers) -> int:
        """The number of a table: (256,) or (256, 256), of bytes as the device has them."""
        self.tables.append(np.asarray(elements, np.int64))
        return len(self.tables) - 1

    # --- making -----------------------------------------------------------------------------------
    def make(
        self, kind: FunctionKind, parameters: Integers, arguments: Integers | None = None
    ) -> Integers:
        """Numbers (n,) of functions; parameters (n, p), arguments (n, q): numbers of functions."""
        if arguments is None:
            arguments = np.zeros((len(parameters), 0), np.int64)
        first, inverse = distinct(np.concatenate([parameters, arguments], 1).astype(np.int64))
        p, q = parameters.shape[1], arguments.shape[1]
        rows = np.zeros((len(first), _WIDTH), np.int64)
        rows[:, :_PARAMETERS] = kind, p, q
        rows[:, _PARAMETERS : _PARAMETERS + p] = parameters[first]
        rows[:, _ARGUMENTS : _ARGUMENTS + q] = arguments[first]
        made = self._rows.enter(rows)
        if (begin := self._shape_of.count) < self._rows.data.shape[1]:
            self._enter_shapes(kind, self._rows.data[:, begin:].T)
        return made[inverse]

    def _enter_shapes(self, kind: FunctionKind, rows: Integers) -> None:
        """What rows (n, _WIDTH), which are of one kind, have in common with others."""
        p, q = rows[0, 1:_PARAMETERS].tolist()
        shapes = np.zeros((len(rows), 3 + MAX_PARTS), np.int64)
        shapes[:, 0], shapes[:, 1] = kind, p
        shapes[:, 2] = _static(kind, rows[:, _PARAMETERS : _PARAMETERS + p])
        shapes[:, 3 : 3 + q] = 1 + self.shapes(rows[:, _ARGUMENTS : _ARGUMENTS + q])
        self._shape_of.extend(self._shapes.enter(shapes)[None])

    def sum(
        self, coefficients: Integers, arguments: Integers, constant: Integers, shift: Integers
    ) -> Integers:
        """(arguments . coefficients + constant) >> shift; both (n, q), the others (n,)."""
        made = self.make(
            FunctionKind.SUM,
            np.concatenate([constant[:, None], shift[:, None], coefficients], 1),
            arguments,
        )
        if coefficients.shape[1] == 1:  # x itself
            plain = (coefficients[:, 0] == 1) & (constant == 0) & (shift == 0)
            made = np.where(plain, arguments[:, 0], made)
        return made

    def constants(self, numbers: Integers) -> Integers:
        """Functions (n,) that have the values numbers (n,), whatever they are functions of."""
        zeros, nothing = np.zeros((len(numbers), 1), np.int64), np.zeros(len(numbers), np.int64)
        return self.sum(zeros, zeros + FIRST, numbers, nothing)

    # --- reading ----------------------------------------------------------------------------------
    def shapes(self, functions: Integers) -> Integers:
        """What functions that are evaluated together have in common; shape of the argument."""
        return np.asarray(self._shape_of.data[0][functions])

    def kind(self, function: int) -> FunctionKind:
        """What its last step is."""
        return FunctionKind(int(self._rows.data[0, function]))

    def are(self, kind: FunctionKind, functions: Integers) -> NDArray[np.bool_]:
        """Of which of functions, of any shape, the last step is of this kind."""
        return np.asarray(self._rows.data[0][functions] == kind)

    def parameters(self, functions: Integers) -> Integers:
        """(p, n) of functions of one kind, which have as many parameters."""
        count = int(self._rows.data[1, functions[0]])
        return np.asarray(self._rows.data[_PARAMETERS : _PARAMETERS + count, functions])

    def arguments(self, functions: Integers) -> Integers:
        """(q, n) numbers of functions, of functions of one kind, which have as many arguments."""
        count = int(self._rows.data[2, functions[0]])
        return np.asarray(self._rows.data[_ARGUMENTS : _ARGUMENTS + count, functions])

    def renamed(self, function: int, number: int) -> int:
        """The same function of the first or of the second byte."""
        one = np.array([function])
        if self.kind(function) == FunctionKind.INPUT:
            return number
        kids = [self.renamed(int(kid[0]), number) for kid in self.arguments(one)]
        made = self.make(self.kind(function), self.parameters(one).T, np.array([kids]))
        return int(made[0])

    def evaluate(self, functions: Integers, *inputs: Integers) -> Integers:
        """Values (n, points) of functions (n,) of one shape; inputs: the sums, or the two bytes,
        which broadcast to (n, points)."""
        self.evaluated += max(len(functions), len(inputs[0])) * inputs[0].shape[-1]
        return self._evaluate(functions, inputs, {})

    def _evaluate(
        self, functions: Integers, inputs: Sequence[Integers], known: dict[bytes, Integers]
    ) -> Integers:
        key = functions.tobytes()
        if key not in known:
            kind = self.kind(int(functions[0]))
            p = self.parameters(functions)[..., None]
            if kind == FunctionKind.INPUT:
                return inputs[int(p[0, 0, 0])]
            values = [self._evaluate(kid, inputs, known) for kid in self.arguments(functions)]
            known[key] = self.apply(kind, p, values)
        return known[key]

    def apply(self, kind: FunctionKind, p: Integers, values: Sequence[Integers]) -> Integers:
        """One step: p (parameters, n, 1) of one kind, values of its arguments, which broadcast."""
        x = values[0]
        match kind:
            case FunctionKind.SUM:
                y = p[0]
                for coefficient, value in zip(p[2:], values, strict=True):
                    y = y + coefficient * value
                return wrapped(y >> p[1])
            case FunctionKind.MIN:
                return np.asarray(np.minimum(x, p[0]))
            case FunctionKind.MAX:
                return np.asarray(np.maximum(x, p[0]))
            case FunctionKind.SHIFT:
                right = np.clip(p[0], 0, 32)
                left = np.clip(-p[0], 0, 32)
                return wrapped(x >> right << left)
            case FunctionKind.PRODUCT:
                return wrapped(x * p[0])
            case FunctionKind.BYTE:
                return x.astype(np.int8).astype(np.int64)
            case FunctionKind.RQ:
                return _requantized(x, p)
            case FunctionKind.RULE:
                rule, taken = self.rules[int(p[0, 0, 0])]
                return rule.levels(x, p[1]) - taken
            case FunctionKind.TABLE:
                return np.asarray(self.tables[int(p[0, 0, 0])][x + 128])
            case _:
                return self._of_two(kind, p, x, values[1])

    def _of_two(self, kind: FunctionKind, p: Integers, x: Integers, y: Integers) -> Integers:
        match kind:
            case FunctionKind.TABLE_OF_TWO:
                return np.asarray(self.tables[int(p[0, 0, 0])][x + 128, y + 128])
            case FunctionKind.MIN_OF_TWO:
                return np.minimum(x, y)
            case FunctionKind.MAX_OF_TWO:
                return np.maximum(x, y)
            case FunctionKind.PRODUCT_OF_TWO:
                return wrapped(x * y)
            case _:
                raise AssertionError(f"{kind} is no function of two")


def _requantized(x: Integers, p: Integers) -> Integers:
    """VTA-Q's RQ: bias, scaling, zero point, clamp."""
    bias, multiplier, lane, zero, low, high, rounding = p
    x = wrapped(x + bias)
    if int(rounding[0, 0]) == _FLOAT32_ROUNDING:
        scale: NDArray[Any] = multiplier.astype(np.int32).view(np.float32)
        with np.errstate(all="ignore"):
            y = np.nan_to_num(_float32_or_nan(x, scale))
        scaled = y.astype(np.int64)
    else:
        shift = np.clip(((lane & 255) ^ 128) - 128, -31, 30)
        x = wrapped(x << (lane >> 8 & 31))
        scaled = (single if int(rounding[0, 0]) else double)(x, multiplier, shift)
    return np.asarray(np.minimum(np.maximum(scaled + zero, low), high))


def _float32_or_nan(x: Integers, scale: NDArray[Any]) -> NDArray[np.float64]:
    """float32's product, to nearest, ties to even, saturated to 32 bits; nan stays."""
    product = np.rint(x.astype(np.float32) * scale).astype(np.float64)
    return np.asarray(np.clip(product, -(1 << 31), (1 << 31) - 1))
