# SPDX-License-Identifier: Apache-2.0
"""prove/operators/weighted.py: sums of elements with weights are what they compute, of int8 and of
uint8, with constants among the elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.prove.network import ModelTensor
from loadstone.prove.operators import weighted
from loadstone.prove.operators.weighted import Sums, rule_of
from loadstone.prove.requantize import Average, Away, Requantizer
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import Unsupported
from tests.prove.networks import LIMITS, Net, state


@pytest.fixture(params=["int8", "uint8"])
def net(request: pytest.FixtureRequest) -> Net:
    return Net(1, request.param)


WINDOW = {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 2, 1)}
PLAIN = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("groups", "window", "small"),
    [(1, PLAIN, False), (2, WINDOW, False), (4, PLAIN, False),
     (1, WINDOW, True), (2, PLAIN, True), (4, WINDOW, True)],
)  # fmt: skip
def test_convolutions(
    net: Net, layout: str, groups: int, window: dict[str, Any], small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of two images, with a bias and without; in parts, where memory is short."""
    if small:
        monkeypatch.setattr(weighted, "_CHUNK", 20)
        monkeypatch.setattr(weighted, "_EXACT_COLUMNS", 5)
    last = layout == "NHWC"
    x = net.padded(2, 4, 2, 4) if last else net.padded(2, 4, 3, 3)
    rows, columns = (4, 4) if last else (5, 3)
    top, left, bottom, right = window["pads"]
    (sy, sx), (dy, dx) = window["strides"], window["dilations"]
    oh, ow = (
        (rows + top + bottom - 2 * dy - 1) // sy + 1,
        (columns + left + right - dx - 1) // sx + 1,
    )
    shape = (2, oh, ow, 4) if last else (2, 4, oh, ow)
    said = {**window, "layout": layout, "groups": groups}
    made = []
    for bias in (-1, net.bias(4)):
        w = net.weights(4, 3, 2, 4 // groups)
        kind = "depthwise_conv2d" if groups == 4 else "conv2d"
        made.append(net.of(kind, [x, w, bias], shape, requantization=net.rule(4), **said))
    net.check(*made)


def test_a_bias_and_weights_may_be_the_first_tensors(net: Net) -> None:
    """Number 0 is a tensor, and no zero point is 0."""
    bias = net.bias(3)
    plain, stated = (net.weights(3, 2, zero_points=zeros) for zeros in ((), (0,)))
    x = net.input(2, 2)
    made = [net.of("dense", [x, w, bias], (2, 3), requantization=net.rule(3))
            for w in (plain, stated)]  # fmt: skip
    assert bias == 0
    net.check(*made)


def test_zero_points_of_weights(net: Net) -> None:
    x = net.input(1, 3, 3, 2)
    said = {**PLAIN, "layout": "NHWC", "groups": 1}
    made = []
    for zeros in ((5,), (1, -2, 3)):
        w = net.weights(3, 2, 2, 2, zero_points=zeros, axis=0)
        made.append(net.of("conv2d", [x, w, -1], (1, 2, 2, 3), requantization=net.rule(3), **said))
    flat = net.of("reshape", [x], (3, 6))
    w = net.weights(4, 6, zero_points=(9, 8, 7, 6), axis=0)
    made.append(net.of("dense", [flat, w, -1], (3, 4), requantization=net.rule(4)))
    net.check(*made)
    w = net.weights(3, 2, 2, 2, zero_points=(1, 2), axis=3)
    net.of("conv2d", [x, w], (1, 2, 2, 3), requantization=net.rule(3), **said)
    with pytest.raises(Unsupported, match="zero points along axis 3"):
        state(net.network(*made))


@pytest.mark.parametrize("small", [0, 6, 14])
def test_dense_layers(net: Net, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.setattr(weighted, "_CHUNK", small)
        monkeypatch.setattr(weighted, "_EXACT_COLUMNS", 3)
    x = net.padded(2, 3, 7)
    made = [
        net.of("dense", [x, net.weights(4, 7), bias], (2, 5, 4), requantization=net.rule(4))
        for bias in (-1, net.bias(4))
    ]
    net.check(*made)
    absent = net.operators[-2]
    net.operators.append(replace(absent, inputs=absent.inputs[:2], outputs=(made[1],)))
    elements = state(net.network(*made)).elements
    assert (elements.symbols(made[0]) == elements.symbols(made[1])).all()


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (2, 2)])
def test_a_bias_is_one_number_for_each_output(net: Net, shape: tuple[int, int]) -> None:
    """Whatever axes it has, of which LiteRT counts the elements alone."""
    x, image = net.input(4, 7), net.input(1, 2, 2, 3)
    biases = [net.constant(net.rng.integers(-900, 900, shape).astype(np.int32), zero_points=(0,))
              for _ in range(2)]  # fmt: skip
    y = net.of("dense", [x, net.weights(4, 7), biases[0]], (4, 4), requantization=net.rule(4))
    said = {**PLAIN, "layout": "NHWC", "groups": 1, "requantization": net.rule(4)}
    net.check(
        y, net.of("conv2d", [image, net.weights(4, 1, 1, 3), biases[1]], (1, 2, 2, 4), **said)
    )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_averages_over_windows(net: Net, layout: str) -> None:
    """Divided by the number of elements inside; of levels, or of levels less a zero point."""
    x = net.padded(2, 4, 3, 2)
    taken = {n: Requantizer(Average(n), 0, *LIMITS[net.dtype]) for n in range(1, 7)}
    scaled = {n: Requantizer(Away(np.array([0.7 / n])), net.zero, *LIMITS[net.dtype])
              for n in range(1, 7)}  # fmt: skip
    said = {"layout": layout, "kernel": (2, 3), "strides": (2, 1), "pads": (1, 1, 1, 1)}
    shape = (2, 3, 5, 2) if layout == "NHWC" else (2, 4, 3, 2)
    made = [
        net.of("average_pool", [x], shape, averages=taken, zero_point=0, **said),
        net.of("average_pool", [x], shape, averages=scaled, zero_point=net.zero - 20, **said),
    ]
    net.check(*made)


def test_an_average_without_an_element_is_not_covered() -> None:
    net = Net()
    x = net.input(1, 2, 2, 1)
    averages = {n: Requantizer(Average(n), 0, -128, 127) for n in (1, 2)}
    said = {"layout": "NHWC", "kernel": (1, 2), "strides": (1, 1), "zero_point": 0}
    y = net.of("average_pool", [x], (1, 3, 1, 1), averages=averages, pads=(1, 0, 0, 0), **said)
    with pytest.raises(Unsupported, match="the average_pool: the average of 0 elements"):
        state(net.network(y))


@pytest.mark.parametrize(
    ("axes", "shape"), [((1, 2), (2, 4)), ((2,), (2, 3, 4)), ((-1, 1), (2, 5)), ((3, 1), (2, 5))]
)
def test_averages_over_axes(net: Net, axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = net.padded(2, 3, 3, 4)
    rule = Requantizer(Away(np.array([0.031])), net.zero, *LIMITS[net.dtype])
    net.check(net.of("mean", [x], shape, axes=axes, keep_dims=False, requantization=rule))


@pytest.mark.parametrize(("bias", "fits"), [(-128, True), (-127, False)])
def test_sums_of_more_than_32_bits_are_not_covered(bias: int, fits: bool) -> None:
    """The greatest sum is 2^31 - 1, and one more."""
    for sign in (1, -1):
        net = Net()
        x = net.input(1, 2)
        net.tensors[x] = ModelTensor("x", (1, 2), "int8", (0.5,), (0,))
        w = net.constant(np.array([[0, 1], [sign * 1, 0], [0, 0]], np.int8), zero_points=(0,))
        most = (1 << 31) - 127 + bias + 127 if sign > 0 else -(1 << 31) + 127 - bias - 128
        b = net.constant(np.array([0, most, 0], np.int32), zero_points=(0,))
        y = net.of("dense", [x, w, b], (1, 3), requantization=net.rule(3))
        if fits:
            state(net.network(y))
        else:
            with pytest.raises(Unsupported, match="the dense: its sums may leave 32 bits"):
                state(net.network(y))


def test_sums_of_constants_alone_are_constants(net: Net) -> None:
    x = net.constant(net.table(2, 7).astype(net.dtype))
    net.input(1, 1)
    y = net.of("dense", [x, net.weights(4, 7), net.bias(4)], (2, 4), requantization=net.rule(4))
    net.check(y)
    assert (state(net.network(y)).elements.symbols(y) < CONSTANTS).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_first_term_of_each_sum(seed: int) -> None:
    """The first symbol with a weight that is no constant: 256 is the least."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(CONSTANTS - 3, CONSTANTS + 3, (5, 4))
    used = rng.random((4, 6)) < 0.6
    made = weighted._first_terms(symbols, used)
    for place, row in enumerate(symbols.tolist()):
        for output in range(6):
            terms = [x for x, counts in zip(row, used[:, output], strict=True)
                     if counts and x >= CONSTANTS]  # fmt: skip
            assert not terms or made[place, output] == terms[0]


def test_a_sum_that_is_0_at_a_point_is_no_constant() -> None:
    """By chance; one that is 0 at all of them is its constant part."""
    net = Net()
    x = net.input(1, 2)
    y = net.of("dense", [x, net.weights(1, 2)], (1, 1), requantization=net.rule())
    definition = state(net.network(y))
    elements, operator = definition.elements, net.operators[0]
    number = rule_of(elements, operator, Requantizer(Away(np.array([0.1])), 2, -128, 127))
    for zeros in (slice(0, 1), slice(1, None), slice(4, 5), slice(None)):
        sums = Sums(elements, elements.symbols(x), np.array([[3.0], [5.0]]))
        sums.constant += 70
        sums.sums[zeros] = 0
        (made,) = sums.required(elements, operator, number, np.zeros(1, np.int64))[0]
        assert made == 9 if zeros == slice(None) else made >= CONSTANTS


def test_a_sum_of_one_element_is_a_function_of_it(net: Net) -> None:
    """Whether constants stand before it or not: so a device may make it of the element."""
    x = net.input(3, 2)
    rows = net.of("pad", [x], (4, 4), before=(1, 2), after=(0, 0), value=net.zero + 7)
    weights = np.array([[0, 0, 3, 0], [4, 0, 0, -2], [4, 1, 5, 0], [0, 0, 0, 9], [7, 0, 0, 0]])
    w = net.constant(weights.astype(np.int8), zero_points=(0,))
    rule = Requantizer(Away(np.full(5, 0.2)), net.zero, *LIMITS[net.dtype])
    y = net.of("dense", [rows, w, -1], (4, 5), requantization=rule)
    elements = state(net.network(y)).elements
    made, given = elements.symbols(y), elements.symbols(x)
    assert (made[0] < CONSTANTS).all()
    assert (made[:, 4] < CONSTANTS).all()
    of = elements.values.origin(given.reshape(-1))[0].reshape(3, 2)[:, [0, 1, 0, 1]]
    for symbol, source in zip(made[1:, :4].reshape(-1), of.reshape(-1), strict=True):
        assert elements.values.element(int(symbol))[0] == source
