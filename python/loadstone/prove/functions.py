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
from loadstone.prove.requantize import Requantizer, double, single, wrapped
from loadstone.prove.tables import Growing

__all__ = ["FIRST", "MAX_PARTS", "SECOND", "FunctionKind", "Functions", "Rule", "distinct"]

#: Arguments that a SUM can have.
MAX_PARTS = 10
_PARAMETERS = 2 + MAX_PARTS
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


def _static(kind: FunctionKind, parameters: Integers) -> int:
    """The parameter that says more than a number: functions with the same one have one shape."""
    match kind:
        case FunctionKind.RQ:
            return int(parameters[_ROUNDING])
        case FunctionKind.INPUT | FunctionKind.RULE:
            return int(parameters[0])
        case FunctionKind.TABLE | FunctionKind.TABLE_OF_TWO:
            return int(parameters[0])
        case _:
            return 0


def distinct(rows: Integers) -> tuple[Integers, Integers]:
    """Of rows (n, k): the numbers of those that are the first of their kind, and for each row
    which of these it equals."""
    if rows.shape[1] == 0:
        return np.zeros(1, np.int64), np.zeros(len(rows), np.int64)
    # One number for each row, by odd multipliers; rows that share one by chance are found.
    odd = np.arange(1, 2 * rows.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = np.ascontiguousarray(rows).view(np.uint64) + np.uint64(0x632BE59BD9B4E019)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    hashed = (mixed * (odd | np.uint64(1))).sum(1, dtype=np.uint64)
    _, first, inverse = np.unique(hashed, return_index=True, return_inverse=True)
    if not (rows[first][inverse] == rows).all():
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


class Functions:
    """All functions of one proof. Arrays of functions hold their numbers."""

    def __init__(self) -> None:
        self._known: dict[tuple[FunctionKind, int, bytes], int] = {}
        self._shapes: dict[tuple[object, ...], int] = {}
        self._rows = Growing(2 + _PARAMETERS + MAX_PARTS, np.int64)
        self._arity: list[tuple[int, int]] = []  # parameters and arguments of each
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
        rows = np.concatenate([parameters, arguments], 1).astype(np.int64)
        first, inverse = distinct(rows)
        count = parameters.shape[1]
        made = [self._number(kind, count, row) for row in rows[first]] if len(rows) else []
        return np.array(made, np.int64)[inverse]

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

    def _number(self, kind: FunctionKind, count: int, row: Integers) -> int:
        key = kind, count, row.tobytes()
        if key not in self._known:
            kids = row[count:]
            held = self._rows.data
            static = _static(kind, row)
            shape = (kind, static, count, *held[1, kids].tolist())
            column = np.zeros((2 + _PARAMETERS + MAX_PARTS, 1), np.int64)
            column[0], column[1] = kind, self._shapes.setdefault(shape, len(self._shapes))
            column[2 : 2 + count, 0] = row[:count]
            column[2 + _PARAMETERS : 2 + _PARAMETERS + len(kids), 0] = kids
            self._known[key] = int(self._rows.extend(column)[0])
            self._arity.append((count, len(kids)))
        return self._known[key]

    # --- reading ----------------------------------------------------------------------------------
    def shapes(self, functions: Integers) -> Integers:
        """What functions that are evaluated together have in common; shape of the argument."""
        return np.asarray(self._rows.data[1, functions])

    def kind(self, function: int) -> FunctionKind:
        """What its last step is."""
        return FunctionKind(int(self._rows.data[0, function]))

    def parameters(self, functions: Integers) -> Integers:
        """(p, n) of functions of one shape."""
        return np.asarray(self._rows.data[2 : 2 + self._arity[int(functions[0])][0], functions])

    def arguments(self, functions: Integers) -> Integers:
        """(q, n) numbers of functions, of functions of one shape."""
        begin = 2 + _PARAMETERS
        count = self._arity[int(functions[0])][1]
        return np.asarray(self._rows.data[begin : begin + count, functions])

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
