# SPDX-License-Identifier: Apache-2.0
"""prove/softmax.py: a softmax is a function of its row with the constants that LiteRT computes of
scale and beta, or with its quantizers; what else it could depend on is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadstone.prove.network import ModelOperator
from loadstone.prove.operators.ends import bits
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import positions, softmax_litert, softmax_onnx
from loadstone.prove.values import Values
from loadstone.prove.verdict import Unsupported
from tests.prove.networks import Net, state


@pytest.fixture(params=["int8", "uint8"])
def net(request: pytest.FixtureRequest) -> Net:
    return Net(1, request.param)


def taken(net: Net, y: int, *name: object) -> None:
    """The symbols of y are those of the function `name` of the rows of its operator's input, and
    each row has symbols of its own."""
    definition = state(net.network(y))
    (x,) = next(o for o in net.operators if y in o.outputs).inputs
    rows = definition.elements.symbols(x)
    made = definition.elements.symbols(y)
    flat = rows.reshape(-1, rows.shape[-1])
    assert len(np.unique(made)) == made.size
    wanted = definition.rows.of(name, flat, made.size // len(flat))
    assert np.array_equal(made.reshape(len(flat), -1), wanted)


@pytest.mark.parametrize(
    ("real", "constants"),
    [  # multiplier, left shift and the least difference of LiteRT's Prepare
        (0.125, (1 << 30, 24, -124)),
        (0.1, (1717986918, 23, -248)),
        (1.5, (3 << 29, 27, -15)),  # 15.5, rounded down
        (2.0, (1 << 30, 28, -7)),
        (0.0625 * 3, (3 << 29, 24, -124)),
        (15.0, (15 << 27, 30, -1)),
        (16.0, ((1 << 31) - 1, 30, -1)),
        (1e9, ((1 << 31) - 1, 30, -1)),
    ],
)
def test_constants_of_litert(real: float, constants: tuple[int, ...]) -> None:
    rows = RowFunctions(Values())
    x = rows.values.opaque(np.full(6, -128), np.full(6, 127)).reshape(2, 3)
    made = softmax_litert(rows, x, real)
    assert made.shape == (2, 3)
    assert np.array_equal(made, rows.of(("softmax", *constants), x))


@pytest.mark.parametrize("axis", [-1, 2])
@pytest.mark.parametrize("said", [{}, {"arithmetic": "litert"}])
def test_a_softmax_of_litert(net: Net, axis: int, said: dict[str, str]) -> None:
    """Of beta times the input's scale, which is 1/2; of int8 and uint8 the same."""
    x = net.input(2, 3, 5)
    y = net.of("softmax", [x], (2, 3, 5), axis=axis, beta=0.25, **said)
    taken(net, y, "softmax", 1 << 30, 24, -124)


@pytest.mark.parametrize("axis", [-1, 1])
def test_a_softmax_of_onnx(net: Net, axis: int) -> None:
    x = net.input(4, 5)
    middle = 128 * (net.dtype == "uint8")
    limits = {"low": middle - 128, "high": middle + 127}
    y = net.of("softmax", [x], (4, 5), axis=axis, beta=1.0, arithmetic="onnx", **limits)
    assert [net.tensors[k].zero_point - middle for k in (x, y)] == [3, 4]
    grids = (bits(0.5), 3), (bits(0.5), 4)
    taken(net, y, "softmax of real numbers", *grids)
    rows = RowFunctions(Values())
    made = softmax_onnx(rows, np.array([[1, 2]]), (0.5, 3), (0.25, 4))
    drawn = (0.5, 3, 0.25, 4), (0.25, 4, 0.5, 3), (0.5, 4, 0.25, 3), (0.5, 3, 0.5, 4)
    names = [((bits(a), p), (bits(b), q)) for a, p, b, q in drawn]
    found = [rows.of(("softmax of real numbers", *name), np.array([[1, 2]])) for name in names]
    assert [np.array_equal(made, one) for one in found] == [True, False, False, False]


@pytest.mark.parametrize("change", [{"low": 1}, {"low": -1}, {"high": 1}, {"high": -1}])
def test_a_softmax_that_is_clamped_is_not_covered(net: Net, change: dict[str, int]) -> None:
    x = net.input(2, 5)
    middle = 128 * (net.dtype == "uint8")
    limits = {"low": middle - 128, "high": middle + 127}
    limits = {end: level + change.get(end, 0) for end, level in limits.items()}
    y = net.of("softmax", [x], (2, 5), axis=1, beta=1.0, arithmetic="onnx", **limits)
    with pytest.raises(Unsupported, match="the softmax: a softmax that is clamped"):
        state(net.network(y))


def test_the_largest_of_rows(net: Net) -> None:
    x = net.input(2, 3, 5)
    net.tensors.append(net.tensors[x].__class__("y", (2, 3), "int32"))
    y = len(net.tensors) - 1
    net.operators.append(ModelOperator("arg_max", (x,), (y,), {"axis": 2}, "the arg_max"))
    taken(net, y, "position of the largest")
    rows = RowFunctions(Values())
    x_ = np.array([[1, 2, 3], [1, 2, 4]])
    made = positions(rows, x_)
    assert np.array_equal(made, rows.of(("position of the largest",), x_, 1)[:, 0])


@pytest.mark.parametrize(
    ("kind", "axis", "message"),
    [
        ("softmax", 0, "a softmax over another axis than the last"),
        ("softmax", 1, "a softmax over another axis than the last"),
        ("softmax", -2, "a softmax over another axis than the last"),
        ("softmax", 3, "a softmax over another axis than the last"),
        ("arg_max", 1, "the largest along another axis than the last"),
        ("arg_max", 0, "the largest along another axis than the last"),
        ("arg_max", -1, "the largest along another axis than the last"),
    ],
)
def test_another_axis_is_not_covered(kind: str, axis: int, message: str) -> None:
    net = Net()
    said: dict[str, Any] = {"axis": axis, "beta": 1.0}
    y = net.of(kind, [net.input(5, 5, 5)], (5, 5, 5), **said)
    with pytest.raises(Unsupported, match=f"the {kind}: {message}"):
        state(net.network(y))
