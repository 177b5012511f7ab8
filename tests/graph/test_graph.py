# SPDX-License-Identifier: Apache-2.0
"""graph/: the dataclasses check themselves, and hold what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.numerics import Rounding

Q = g.Quantization(0.5, 3)


def int8(name: str, *shape: int, quantization: g.Quantization | None = Q) -> g.Tensor:
    return g.Tensor(name, shape, "int8", quantization)


def convolution(
    output: tuple[int, ...] = (1, 4, 3, 8), groups: int = 1, name: str = "y", source: str = "x"
) -> g.Conv2D:
    """3x3, stride 2, pads 1 1 0 0, on (1, 8, 7, 4)."""
    return g.Conv2D(
        name=name,
        inputs=(int8(source, 1, 8, 7, 4),),
        outputs=(int8(name, *output),),
        weights=np.arange(8 * 9 * 4 // groups, dtype=np.uint8)
        .view(np.int8)
        .reshape(8, 3, 3, 4 // groups),
        weight_scales=np.full(8, 0.25, np.float32),
        weight_zero_points=np.zeros(8, np.int32),
        bias=np.zeros(8, np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(2, 2),
        dilation=(1, 1),
        padding=(1, 1, 0, 0),
        groups=groups,
    )


def test_a_convolution_knows_the_shape_of_its_output() -> None:
    assert convolution().output.shape == (1, 4, 3, 8)
    with pytest.raises(AssertionError):
        convolution((1, 4, 4, 8))


def test_depthwise_is_one_channel_per_group() -> None:
    assert convolution(groups=4).is_depthwise
    assert not convolution(groups=2).is_depthwise
    assert not convolution().is_depthwise


def test_nothing_can_be_changed() -> None:
    operator = convolution()
    with pytest.raises(FrozenInstanceError):
        operator.low = 0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        operator.weights[0] = 0


def test_operators_are_equal_only_to_themselves() -> None:
    assert convolution() != convolution()
    assert len({convolution(), convolution()}) == 2


def test_a_tensor_says_its_size_and_quantization() -> None:
    tensor = g.Tensor("t", (2, 3, 5), "int32", Q)
    assert (tensor.size, tensor.size_bytes, tensor.scale, tensor.zero_point) == (30, 120, 0.5, 3)
    with pytest.raises(AssertionError, match="t is not quantized"):
        _ = g.Tensor("t", (1,), "int8").scale


def test_a_scale_is_a_float32_value() -> None:
    with pytest.raises(AssertionError, match="no float32 value"):
        g.Quantization(0.1, 0)


def test_a_graph_refuses_a_tensor_that_is_read_before_it_is_written() -> None:
    first = convolution()
    second = g.Reshape(name="z", inputs=first.outputs, outputs=(int8("z", 1, 96),))
    graph = g.Graph(
        name="n", inputs=first.inputs, outputs=second.outputs, operators=(first, second)
    )
    assert graph.producer(second.input) is first
    assert graph.producer(first.input) is None
    assert graph.consumers(first.output) == (second,)
    with pytest.raises(AssertionError, match="z reads"):
        replace(graph, operators=(second, first))
    with pytest.raises(AssertionError, match="writes"):
        replace(graph, operators=(first, first, second))


def test_a_description_has_one_line_per_operator_with_shapes_and_no_arrays() -> None:
    first = convolution()
    graph = g.Graph(name="n", inputs=first.inputs, outputs=first.outputs, operators=(first,))
    line = graph.describe(lambda operator: f"-> {operator.kind}")
    assert line.startswith(
        "y[1x4x3x8 int8 0.5@3] = conv2d(x[1x8x7x4 int8 0.5@3]) weights=int8[8,3,3,4]".replace(
            "8,3,3,4", "8, 3, 3, 4"
        )
    )
    assert line.endswith("-> conv2d")
    assert "rounding=double" in line
    assert "\n" not in line


def test_resizes_sample_where_the_flags_say() -> None:
    def resize(**flags: bool) -> g.ResizeNearest:
        fields = {"align_corners": False, "half_pixel_centers": False} | flags
        return g.ResizeNearest(
            name="y",
            inputs=(int8("x", 1, 3, 4, 1),),
            outputs=(int8("y", 1, 6, 8, 1),),
            rounding=Rounding.DOUBLE,
            **fields,
        )

    np.testing.assert_array_equal(resize().nearest(1), [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(resize(half_pixel_centers=True).nearest(1), [0, 0, 1, 1, 2, 2])
    np.testing.assert_allclose(resize(align_corners=True).positions(1), np.arange(6) * 2 / 5)
    np.testing.assert_array_equal(resize(align_corners=True).nearest(1), [0, 0, 1, 1, 2, 2])


DENSE: dict[str, Any] = {
    "name": "y",
    "inputs": (int8("x", 1, 4),),
    "outputs": (int8("y", 1, 8),),
    "weights": np.ones((8, 4), np.int8),
    "weight_scales": np.full(8, 0.25, np.float32),
    "weight_zero_points": np.zeros(8, np.int32),
    "bias": np.zeros(8, np.int32),
    "low": -128,
    "high": 127,
    "rounding": Rounding.DOUBLE,
}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"weights": np.ones((8, 4), np.int16)}, "weights of int8"),
        ({"weights": np.ones((8, 4, 1), np.int8)}, "weights of two axes"),
        ({"weights": np.ones((8, 3), np.int8)}, r"an input of \(1, 3\)"),
        ({"weight_scales": np.full(8, 0.25)}, "parameters of float32"),
        ({"weight_scales": np.full(7, 0.25, np.float32)}, "a parameter for each output channel"),
        ({"weight_zero_points": np.zeros(8, np.int64)}, "parameters of int32"),
        ({"bias": np.zeros(9, np.int32)}, "a parameter for each output channel"),
        ({"bias": np.zeros(8, np.int64)}, "parameters of int32"),
        ({"low": -129}, "a clamp of int8"),
        ({"high": 128}, "a clamp of int8"),
        ({"low": 1, "high": 0}, "a clamp of int8"),
        ({"outputs": (int8("y", 1, 9),)}, "an output channel for each kernel"),
        ({"outputs": (int8("y", 2, 8),)}, r"an input of \(2, 4\)"),
    ],
)
def test_a_layer_does_not_contradict_itself(changed: dict[str, Any], what: str) -> None:
    g.Dense(**DENSE)
    with pytest.raises(AssertionError, match=f"^dense y: not {what}$"):
        g.Dense(**{**DENSE, **changed})


X, Y = int8("x", 1, 4, 6, 3), int8("y", 1, 4, 6, 3)
OF_TWO: dict[str, Any] = {"name": "y", "inputs": (X, X), "outputs": (Y,), "low": -128, "high": 127}


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: replace(convolution(), weights=np.ones((8, 3, 3), np.int8)), "weights of four"),
        (lambda: replace(convolution(), groups=2), "weights for each input channel"),
        (
            lambda: replace(convolution(), weights=np.ones((8, 3, 3, 1), np.int8), groups=4),
            None,
        ),
        (lambda: convolution((1, 4, 3, 9)), "an output channel for each kernel"),
        (lambda: convolution((1, 4, 2, 8)), r"an output of \(1, 4, 3, 8\)"),
        (lambda: convolution((2, 4, 3, 8)), r"an output of \(1, 4, 3, 8\)"),
        (lambda: g.Add(**OF_TWO, rounding=Rounding.DOUBLE), None),
        (lambda: g.Add(**{**OF_TWO, "inputs": (X,)}, rounding=Rounding.DOUBLE), "of two inputs"),
        (
            lambda: g.Add(**{**OF_TWO, "outputs": (int8("y", 1, 4, 6, 1),)}, rounding=Rounding(0)),
            r"an output of \(1, 4, 6, 3\)",
        ),
        (lambda: g.Reshape(name="y", inputs=(X,), outputs=(int8("y", 72),)), None),
        (
            lambda: g.Reshape(name="y", inputs=(X,), outputs=(int8("y", 71),)),
            "as many elements behind it as before",
        ),
        (lambda: padded((0, 1), (2, 0), (6, 4)), None),
        (lambda: padded((0, 1), (2, 0), (6, 5)), r"an output of \(6, 4\)"),
        (lambda: padded((0, -1), (2, 1), (6, 3)), "more elements, or as many"),
        (lambda: padded((0, 1), (-1, 0), (3, 4)), "more elements, or as many"),
        (lambda: pooled((1, 3, 4, 3)), None),
        (lambda: pooled((1, 3, 5, 3)), r"an output of \(1, 3, 4, 3\)"),
        (lambda: table(np.zeros(256, np.int8)), None),
        (lambda: table(np.zeros(255, np.int8)), "a table of 256 int8"),
        (lambda: table(np.zeros(256, np.uint8)), "a table of 256 int8"),
    ],
)
def test_an_operator_does_not_contradict_itself(
    make: Callable[[], g.Operator], what: str | None
) -> None:
    if what is None:
        make()
        return
    with pytest.raises(AssertionError, match=f" y: not {what}"):
        make()


def padded(before: tuple[int, int], after: tuple[int, int], shape: tuple[int, int]) -> g.Operator:
    ends = (int8("x", 4, 3),), (int8("y", *shape),)
    return g.Pad(name="y", inputs=ends[0], outputs=ends[1], before=before, after=after, value=0)


def pooled(shape: tuple[int, ...]) -> g.Operator:
    size: dict[str, Any] = {
        "kernel": (2, 3),
        "strides": (1, 1),
        "padding": (0,) * 4,
        "rounding": Rounding(0),
    }
    ends: dict[str, Any] = {
        "inputs": (X,),
        "outputs": (int8("y", *shape),),
        "low": -128,
        "high": 127,
    }
    return g.MaxPool2D(name="y", **ends, **size)


def table(values: Any) -> g.Operator:
    return g.Lookup(name="y", inputs=(X,), outputs=(Y,), table=values)


def test_a_network_writes_its_outputs() -> None:
    with pytest.raises(AssertionError, match=r"network n does not write its outputs \['y'\]"):
        g.Graph(name="n", inputs=(X,), outputs=(Y,), operators=())
