# SPDX-License-Identifier: Apache-2.0
"""Convolutions, dense layers, averages: requantized sums of elements with constant weights.

In:   operators of these kinds.
Out:  the symbols of their outputs.
Next: definition.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import POINTS, Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.elements import Elements, attribute
from loadstone.prove.requantize import Requantizer
from loadstone.prove.values import CENTRE, CONSTANT, CONSTANTS, NO_SOURCE, RADIUS
from loadstone.prove.verdict import Unsupported

__all__ = [
    "Sums",
    "average_pool",
    "convolution",
    "dense",
    "mean",
    "rule_of",
    "taps_of",
    "zero_point",
]

#: Columns whose products with weights of nine bits are summed exactly in float64.
_EXACT_COLUMNS = 1 << 13
_CHUNK = 1 << 18
_INT32 = (-(1 << 31), (1 << 31) - 1)
#: Symbols of padding: the byte 0, which adds nothing to a sum; zero points are taken off apart.
PADDING = 0


class Sums:
    """Sums of products (P, O), with the parts of them that are known."""

    def __init__(self, elements: Elements, symbols: Integers, weights: NDArray[np.float64]) -> None:
        """symbols (P, K), weights (K, O)."""
        values, k = elements.values, symbols.shape[1]
        shape = len(symbols), weights.shape[1]
        self.sums = np.zeros((POINTS, *shape), np.int64)
        self.constant, self.low, self.high = np.zeros((3, *shape), np.int64)
        self.terms = _first_terms(symbols, weights != 0)
        for begin in range(0, k, _EXACT_COLUMNS):
            part = slice(begin, begin + _EXACT_COLUMNS)
            columns, w = values.columns(symbols[:, part]), weights[part]
            sums = np.matmul(columns[:RADIUS], w)
            radius = columns[RADIUS] @ np.abs(w)
            moduli = values.points.moduli[..., None]
            self.sums = (self.sums + sums[:POINTS].astype(np.int64)) % moduli
            self.constant += sums[CONSTANT].astype(np.int64)
            self.low += (sums[CENTRE] - radius).astype(np.int64) >> 1
            self.high += (sums[CENTRE] + radius).astype(np.int64) >> 1

    def required(
        self, elements: Elements, operator: ModelOperator, rule: int, channels: Integers
    ) -> Integers:
        """Symbols (P, O) of requantized sums; channels (O,): the rule's parameters."""
        values, shape = elements.values, self.constant.shape
        low, high = self.low + self.constant, self.high + self.constant
        if low.min() < _INT32[0] or high.max() > _INT32[1]:
            raise Unsupported(f"{operator.where}: its sums may leave 32 bits")
        sums = self.sums.reshape(POINTS, -1)
        channel = np.broadcast_to(channels, shape).reshape(-1)
        constant = self.constant.reshape(-1)
        parameters = np.stack([np.full(channel.shape, rule), channel], 1)
        sources, made = np.full(len(constant), NO_SOURCE), np.zeros(len(constant), np.int64)
        live = sums.any(0)
        at = np.flatnonzero(live)
        ends = self.low.reshape(-1)[at], self.high.reshape(-1)[at]
        sources[at], factors = values.find(sums[:, at], *ends, True, self.terms.reshape(-1)[at])
        identity, zeros = np.full((len(at), 1), values.identity), np.zeros(len(at), np.int64)
        kids = values.functions.sum(factors[:, None], identity, constant[at], zeros)
        made[at] = values.functions.make(FunctionKind.RULE, parameters[at], kids[:, None])
        at = np.flatnonzero(~live)
        if len(at):
            p = parameters[at].T[..., None]
            numbers = values.functions.apply(FunctionKind.RULE, p, [constant[at][:, None]])
            made[at] = numbers[:, 0]
        return elements.define(sources, made).reshape(shape)


def _first_terms(symbols: Integers, used: NDArray[np.bool_]) -> Integers:
    """Of symbols (P, K) the first that is no constant and has a weight in `used` (K, O); (P, O), a
    constant where there is none."""
    terms = symbols[:, used.argmax(0)]
    fixed = terms < CONSTANTS
    varies = symbols >= CONSTANTS
    for output in np.flatnonzero(fixed.any(0)).tolist():
        rows = np.flatnonzero(fixed[:, output])
        first = (varies[rows] & used[:, output]).argmax(1)
        terms[rows, output] = symbols[rows, first]
    return terms


def rule_of(elements: Elements, operator: ModelOperator, requantization: Requantizer) -> int:
    """The number of a requantization to the operator's output."""
    return elements.values.functions.rule(requantization, elements.taken(operator.outputs[0]))


def taps_of(
    size: tuple[int, ...], output: tuple[int, ...], operator: ModelOperator, kernel: tuple[int, int]
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Rows and columns (OH, OW, KH, KW) of all windows, and which of them are inside."""
    stride = attribute(operator, "strides", tuple)
    dilation = operator.attributes.get("dilations", (1, 1))
    assert isinstance(dilation, tuple)
    pads = attribute(operator, "pads", tuple)
    at = [
        (np.arange(output[k]) * stride[k] - pads[k])[:, None] + np.arange(kernel[k]) * dilation[k]
        for k in range(2)
    ]
    y, x = np.broadcast_arrays(at[0][:, None, :, None], at[1][None, :, None, :])
    return y, x, (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])


def windows_of(
    elements: Elements, operator: ModelOperator, kernel: tuple[int, int]
) -> tuple[Integers, NDArray[np.bool_]]:
    """Symbols (N, OH, OW, taps, C) of the windows of a convolution or pool, PADDING outside, and
    which taps (OH, OW, taps) are inside."""
    last = attribute(operator, "layout", str) == "NHWC"
    x = elements.symbols(operator.inputs[0])
    x = x if last else x.transpose(0, 2, 3, 1)
    shape = elements.tensor(operator.outputs[0]).shape
    output = shape[1:3] if last else shape[2:4]
    rows, columns, inside = taps_of(x.shape[1:3], output, operator, kernel)
    y, z = np.clip(rows, 0, x.shape[1] - 1), np.clip(columns, 0, x.shape[2] - 1)
    taps = np.where(inside[None, ..., None], x[:, y, z], PADDING)
    n, oh, ow, kh, kw, c = taps.shape
    return taps.reshape(n, oh, ow, kh * kw, c), inside.reshape(oh, ow, kh * kw)


def put_image(elements: Elements, operator: ModelOperator, symbols: Integers) -> None:
    """States an output of which symbols are (N, OH, OW, C)."""
    if attribute(operator, "layout", str) != "NHWC":
        symbols = symbols.transpose(0, 3, 1, 2)
    elements.put(operator.outputs[0], symbols)


def _weights(elements: Elements, number: int) -> NDArray[np.float64]:
    """Weights less their zero points; the first axis is that of outputs."""
    tensor = elements.tensor(number)
    weights = elements.constant(number).astype(np.int64)
    zeros = np.array(tensor.zero_points or (0,), np.int64)
    if len(zeros) > 1 and tensor.axis != 0:
        raise Unsupported(f"weights {tensor.name} with zero points along axis {tensor.axis}")
    zeros = zeros.reshape(-1, *[1] * (weights.ndim - 1))
    return np.asarray(weights - zeros, np.float64)


def _bias(elements: Elements, operator: ModelOperator, outputs: int) -> Integers:
    """A number for each output, whatever axes the file gives them."""
    if len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return np.zeros(outputs, np.int64)
    return elements.constant(operator.inputs[2]).astype(np.int64).reshape(outputs)


def zero_point(elements: Elements, number: int) -> int:
    """The byte that means 0."""
    return elements.tensor(number).zero_point - elements.taken(number)


def convolution(elements: Elements, operator: ModelOperator) -> None:
    """conv2d and depthwise_conv2d."""
    weights = _weights(elements, operator.inputs[1])
    outputs, kh, kw, per = weights.shape
    groups = attribute(operator, "groups", int)
    taps, inside = windows_of(elements, operator, (kh, kw))
    n, oh, ow, count, _ = taps.shape
    each = outputs // groups
    bias = _bias(elements, operator, outputs)
    zero = zero_point(elements, operator.inputs[0])
    rule = rule_of(elements, operator, attribute(operator, "requantization", Requantizer))
    weights = weights.reshape(outputs, count, per)
    inner = np.broadcast_to(inside[None], (n, oh, ow, count)).reshape(-1, count)
    taps = taps.reshape(n * oh * ow, count, groups, per)
    made = np.zeros((n * oh * ow, outputs), np.int64)
    step = max(_CHUNK // (count * per), 1)
    for group in range(groups):
        own = slice(group * each, (group + 1) * each)
        w = weights[own]
        for begin in range(0, len(taps), step):
            part = slice(begin, begin + step)
            symbols = taps[part, :, group].reshape(-1, count * per)
            sums = Sums(elements, symbols, w.reshape(each, -1).T)
            taken = inner[part].astype(np.float64) @ w.sum(2).T * zero
            sums.constant += bias[own] - taken.astype(np.int64)
            channels = np.arange(own.start, own.stop)
            made[part, own] = sums.required(elements, operator, rule, channels)
    put_image(elements, operator, made.reshape(n, oh, ow, outputs))


def dense(elements: Elements, operator: ModelOperator) -> None:
    """dense: (..., I) by weights (O, I)."""
    weights = _weights(elements, operator.inputs[1])
    outputs, width = weights.shape
    rows = elements.symbols(operator.inputs[0]).reshape(-1, width)
    bias = _bias(elements, operator, outputs)
    rule = rule_of(elements, operator, attribute(operator, "requantization", Requantizer))
    taken = zero_point(elements, operator.inputs[0]) * weights.sum(1).astype(np.int64)
    made = []
    step = max(_CHUNK // width, 1)
    for begin in range(0, len(rows), step):
        sums = Sums(elements, rows[begin : begin + step], weights.T)
        sums.constant += bias - taken
        made.append(sums.required(elements, operator, rule, np.arange(outputs)))
    elements.put(operator.outputs[0], np.concatenate(made))


def average_pool(elements: Elements, operator: ModelOperator) -> None:
    """average_pool: the sum of the taps inside, requantized by their count."""
    kernel = attribute(operator, "kernel", tuple)
    averages = attribute(operator, "averages", dict)
    taps, inside = windows_of(elements, operator, (kernel[0], kernel[1]))
    n, oh, ow, count, channels = taps.shape
    moved = elements.taken(operator.inputs[0]) - attribute(operator, "zero_point", int)
    divisor = np.broadcast_to(inside.sum(2)[None], (n, oh, ow)).reshape(-1)
    rows = taps.transpose(0, 1, 2, 4, 3).reshape(n * oh * ow, channels, count)
    made = np.zeros((len(rows), channels), np.int64)
    for size in np.unique(divisor).tolist():
        at = divisor == size
        if size not in averages:
            raise Unsupported(f"{operator.where}: the average of {size} elements")
        rule = rule_of(elements, operator, averages[size])
        sums = Sums(elements, rows[at].reshape(-1, count), np.ones((count, 1)))
        sums.constant += moved * size
        symbols = sums.required(elements, operator, rule, np.zeros(1, np.int64))
        made[at] = symbols.reshape(-1, channels)
    put_image(elements, operator, made.reshape(n, oh, ow, channels))


def mean(elements: Elements, operator: ModelOperator) -> None:
    """mean and global_average_pool: requantizes the sum of elements less their zero points."""
    x = elements.symbols(operator.inputs[0])
    axes = sorted(axis % x.ndim for axis in attribute(operator, "axes", tuple))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = int(np.prod([x.shape[axis] for axis in axes]))
    rows = x.transpose(*kept, *axes).reshape(-1, count)
    rule = rule_of(elements, operator, attribute(operator, "requantization", Requantizer))
    sums = Sums(elements, rows, np.ones((count, 1)))
    sums.constant -= zero_point(elements, operator.inputs[0]) * count
    made = sums.required(elements, operator, rule, np.zeros(1, np.int64))
    elements.put(operator.outputs[0], made)
