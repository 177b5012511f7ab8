# SPDX-License-Identifier: Apache-2.0
"""prove/operators/: what symbols of one operator's elements stand for is what it computes, with
each of its attributes, of int8 and of uint8, with constants among its elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadstone.prove.network import ModelTensor
from loadstone.prove.operators.elements import Elements
from loadstone.prove.operators.resizing import resize_bilinear
from loadstone.prove.requantize import Average, Away, Requantizer
from loadstone.prove.values import Values
from loadstone.prove.verdict import Unsupported
from tests.prove.networks import LIMITS, Array, Net, state
from tests.prove.test_definition import check


@pytest.fixture(params=["int8", "uint8"])
def net(request: pytest.FixtureRequest) -> Net:
    return Net(1, request.param)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_the_greatest_of_windows(net: Net, layout: str) -> None:
    x = net.padded(2, 4, 3, 2)
    said = {"layout": layout, "kernel": (2, 3), "strides": (2, 1), "pads": (1, 1, 1, 1)}
    shape = (2, 3, 5, 2) if layout == "NHWC" else (2, 4, 3, 2)
    low, high = LIMITS[net.dtype]
    made = [
        net.of("max_pool", [x], shape, low=low + a, high=high - b, **said)
        for a, b in ((0, 0), (1, 0), (0, 1), (120, 0), (0, 60), (110, 50), (255, 0), (0, 255))
    ]
    net.check(*made)
    for level in (low, high):
        check(net.network(*made), [np.full(net.tensors[x - 1].shape, level, net.dtype)])


@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_two_activations(net: Net, flips: tuple[bool, bool]) -> None:
    """Of one matrix with several, and with constants among the elements."""
    a = net.padded(*((2, 5, 3) if flips[0] else (2, 3, 5)))
    shape_a = net.tensors[a].shape[::-1][:2] if flips[0] else net.tensors[a].shape[1:]
    b = net.input(*((4, shape_a[1]) if flips[1] else (shape_a[1], 4)))
    said = {"transpose_a": flips[0], "transpose_b": flips[1], "requantization": net.rule()}
    net.check(net.of("batch_matmul", [a, b], (2, shape_a[0], 4), **said))


@pytest.mark.parametrize("flips", [(False, False), (True, True)])
@pytest.mark.parametrize("batches", [((), (2,)), ((3,), (3,)), ((2, 1), (3,)), ((), ())])
def test_products_of_many_matrices(
    net: Net, flips: tuple[bool, bool], batches: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """One by many, one by one, each by each."""
    sides = [(4, 3)[:: -1 if flips[0] else 1], (3, 5)[:: -1 if flips[1] else 1]]
    a, b = (
        net.padded(*batch, rows - 2, columns)
        for batch, (rows, columns) in zip(batches, sides, strict=True)
    )
    said = {"transpose_a": flips[0], "transpose_b": flips[1], "requantization": net.rule()}
    shape = *np.broadcast_shapes(*batches), 4, 5
    net.check(net.of("batch_matmul", [a, b], shape, **said))


@pytest.mark.parametrize("side", [0, 1])
def test_a_product_with_constants_is_a_sum_of_elements(net: Net, side: int) -> None:
    """So a device may make it of that element."""
    x = net.input(*((2, 1) if side else (1, 2)))
    fixed = np.array([net.zero + 5, net.zero - 3]).astype(net.dtype)
    w = net.constant(fixed.reshape((1, 2) if side else (2, 1)))
    rule = Requantizer(Away(np.array([0.03])), net.zero, *LIMITS[net.dtype])
    said = {"transpose_a": False, "transpose_b": False, "requantization": rule}
    y = net.of("batch_matmul", [x, w] if side else [w, x], (2, 2), **said)
    net.check(y)
    elements = state(net.network(y)).elements
    made = elements.symbols(y) if side else elements.symbols(y).T
    sources = elements.values.origin(elements.symbols(x).reshape(-1))[0]
    for row, source in zip(made, sources, strict=True):
        assert [elements.values.element(int(one))[0] for one in row] == [source] * 2


@pytest.mark.parametrize("side", [0, 1])
def test_a_product_has_the_range_of_its_sum(net: Net, side: int) -> None:
    """Of two elements with constants, at all pairs of their levels."""
    x = net.input(*((1, 2) if side else (2, 1)))
    factors = np.array([5, 3])
    w = net.constant((net.zero + factors).astype(net.dtype).reshape((2, 1) if side else (1, 2)))
    rule = Requantizer(Away(np.array([0.03])), net.zero, *LIMITS[net.dtype])
    said = {"transpose_a": False, "transpose_b": False, "requantization": rule}
    y = net.of("batch_matmul", [x, w] if side else [w, x], (1, 1), **said)
    elements = state(net.network(y)).elements
    levels = np.arange(256) + LIMITS[net.dtype][0] - net.tensors[x].zero_point
    every = rule.levels(factors[0] * levels[:, None] + factors[1] * levels, 0) - elements.taken(y)
    ends = [int(end[0, 0]) for end in elements.values.limits(elements.symbols(y))]
    assert ends == [every.min(), every.max()]


@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
def test_functions_of_two_elements(net: Net, kind: str) -> None:
    """In both orders, with itself, with constants on either side or on both; broadcast."""
    x, y = net.padded(2, 3, 4), net.padded(2, 3, 4)
    row = net.input(4)
    fixed = net.constant(net.table(5, 4).astype(net.dtype))
    many = net.constant(net.table(2, 5, 4).astype(net.dtype))
    made = [
        net.of(kind, pair, (2, 5, 4), table=net.table(256, 256))
        for pair in ([x, y], [y, x], [x, x], [x, row], [row, y], [x, fixed], [fixed, x],
                     [many, fixed])
    ]  # fmt: skip
    net.check(*made)


def test_functions_of_one_element(net: Net) -> None:
    x = net.padded(2, 3, 4)
    same = np.arange(256) + LIMITS[net.dtype][0]
    made = [net.of(kind, [x], (2, 5, 4), table=net.table(256)) for kind in ("requantize", "table")]
    made.append(net.of("table", [x], (2, 5, 4), table=same))
    for axis in (0, 1, 2):
        table = net.table((2, 5, 4)[axis], 256)
        made.append(net.of("channel_table", [x], (2, 5, 4), table=table, axis=axis))
    net.check(*made)
    definition = state(net.network(*made))
    assert (definition.elements.symbols(made[2]) == definition.elements.symbols(x)).all()


def test_elements_that_move(net: Net) -> None:
    x, y = net.padded(2, 3, 4), net.input(2, 2, 4)
    joined = net.of("concat", [x, y], (2, 7, 4), axis=1, tables=(None, net.table(256)))
    turned = net.of("transpose", [x], (4, 2, 5), axes=(2, 0, 1))
    wide = net.of("pad", [x], (3, 8, 4), before=(0, 1, 0), after=(1, 2, 0), value=net.zero - 9)
    some = net.of("slice", [x], (1, 2, 4), begin=(1, 4, 3), strides=(1, -2, -1))
    flat = net.of("reshape", [x], (8, 5))
    made = [joined, turned, wide, some, flat]
    net.check(*made)
    one = net.of("slice", [x], (5, 2), begin=(1, 0, 1), strides=(1, 1, 2), counts=(1, 5, 2))
    elements = state(net.network(*made, one)).elements
    assert (elements.symbols(one) == elements.symbols(x)[1, :, 1::2]).all()


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_resize_to_the_nearest(net: Net, layout: str) -> None:
    x = net.padded(2, 3, 2, 4)
    said = {"layout": layout, "rows": np.array([2, 0, 1, 1]), "columns": np.array([1, 0, 3])}
    if layout == "NHWC":
        net.check(net.of("resize_nearest", [x], (2, 4, 3, 4), **said))
        return
    y = net.of("resize_nearest", [x], (2, 3, 4, 3), **said)
    elements = state(net.network(y)).elements
    taken = elements.symbols(x)[:, :, said["rows"]][..., said["columns"]]
    assert (elements.symbols(y) == taken).all()


def _between(*weights: float, dtype: Any = np.int64) -> tuple[Array, ...]:
    """Places between elements 0 and 1, 1 and 2 ..., with these weights of the upper one."""
    lower = np.arange(len(weights)) % 2
    return lower, lower + 1, np.array(weights, dtype)


def test_a_resize_between_elements() -> None:
    net = Net()
    x = net.padded(2, 3, 2, 2)
    said = {
        "layout": "NHWC",
        "arithmetic": "litert_int8",
        "requantization": Requantizer(Average(1 << 20), 0, -128, 127),
        "rows": _between(0, 512, 1000, 1024),
        "columns": _between(512, 0, 3, 256, 512),
    }
    net.check(net.of("resize_bilinear", [x], (2, 4, 5, 2), **said))


def test_a_resize_of_uint8_between_elements() -> None:
    """With weights that float32 has exactly; the sums at a half are LiteRT's, upward."""
    net = Net(dtype="uint8")
    x = net.padded(2, 3, 2, 2)
    said = {
        "layout": "NHWC",
        "arithmetic": "litert_uint8",
        "requantization": Requantizer(Average(1 << 20), 0, 0, 255),
        "rows": _between(0, 0.5, 63 / 64, 1, dtype=np.float32),
        "columns": _between(0.5, 0, 1 / 64, 0.25, 0.5, dtype=np.float32),
    }
    same = np.array([0]), np.array([0]), np.array([-0.25], np.float32)
    made = [net.of("resize_bilinear", [x], (2, 4, 5, 2), **said)]
    made.append(net.of("resize_bilinear", [x], (2, 1, 5, 2), **(said | {"rows": same})))
    net.check(*made)


def test_a_resize_of_uint8_by_rounded_weights_takes_elements_or_is_not_covered() -> None:
    net = Net(dtype="uint8")
    x = net.padded(1, 3, 2, 2)
    said = {"layout": "NHWC", "arithmetic": "litert_uint8"}
    whole = _between(0, 0, dtype=np.float32)
    for weight in (1, 0.3):
        same = (np.array([2]), np.array([2]), np.array([weight], np.float32))
        y = net.of("resize_bilinear", [x], (1, 2, 1, 2), rows=whole, columns=same, **said)
        elements = state(net.network(y)).elements
        assert (elements.symbols(y) == elements.symbols(x)[:, [0, 1]][:, :, [2]]).all()
    for weight, upper in ((0.5, 1), (1, 1), (-0.5, 0), (1.5, 0), (1 / 128, 1)):
        for name in ("rows", "columns"):
            other = (np.array([0]), np.array([upper]), np.array([weight], np.float32))
            spoilt = Net(dtype="uint8")
            places = {"rows": whole, "columns": same, name: other}
            if name == "columns":
                places["rows"] = same
            z = spoilt.of(
                "resize_bilinear", [spoilt.input(1, 3, 4, 2)], (1, 2, 1, 2), **said, **places
            )
            with pytest.raises(Unsupported, match="resize between levels of uint8"):
                state(spoilt.network(z))


@pytest.mark.parametrize("weights", [(0.3, -0.3), (0.3, 1.3), (0.5, 1.5), (0.5, -1.5)])
@pytest.mark.parametrize("name", ["rows", "columns"])
def test_one_weight_of_a_resize_that_is_no_part_is_not_covered(
    weights: tuple[float, float], name: str
) -> None:
    """Beside one that is, of an element that is read twice."""
    net, at = Net(dtype="uint8"), np.array([0, 1])
    places = dict.fromkeys(("rows", "columns"), _between(0, 0.5, dtype=np.float32))
    if 0.3 in weights:
        places = dict.fromkeys(("rows", "columns"), (at, at, np.zeros(2, np.float32)))
    places[name] = (at, at, np.array(weights, np.float32))
    said = {"layout": "NHWC", "arithmetic": "litert_uint8"} | places
    z = net.of("resize_bilinear", [net.input(1, 3, 4, 2)], (1, 2, 2, 2), **said)
    made = net.network(z)
    with pytest.raises(Unsupported, match="resize between levels of uint8"):
        state(made)
    with pytest.raises(Unsupported, match="resize between levels of uint8"):
        resize_bilinear(Elements(Values(), made), made.operators[0])


def test_what_is_no_constant_or_no_byte_is_not_covered() -> None:
    net = Net()
    x, w = net.input(1, 2), net.input(3, 2)
    y = net.of("dense", [x, w], (1, 3), requantization=net.rule(3))
    with pytest.raises(Unsupported, match="tensor t1, which is no constant"):
        state(net.network(y))
    wide = Net()
    wide.tensors.append(ModelTensor("wide", (1, 2), "int16", (0.5,), (0,)))
    wide.inputs.append(0)
    with pytest.raises(Unsupported, match="tensor wide of int16: a proof compares bytes"):
        state(wide.network(0))


def test_an_input_may_be_any_byte(net: Net) -> None:
    x = net.input(2, 3)
    elements = state(net.network(x)).elements
    ends = elements.values.limits(elements.symbols(x))
    assert [end.tolist() for end in ends] == [[[-128] * 3] * 2, [[127] * 3] * 2]
