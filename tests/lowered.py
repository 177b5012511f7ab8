# SPDX-License-Identifier: Apache-2.0
"""Running a lowered operator in NumPy, and random operators to lower: shared by the tests of
vta/operators/."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.graph import reference as graph_reference
from loadstone.graph.kernels.windows import convolve
from loadstone.numerics import Rounding, requantize, wrap_int32
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.operators import LoweredOperator, lower_operator
from loadstone.vta.operators.constants import requantization
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from loadstone.vta.operators.request import PLAIN, LayerRequest
from tests.vta.stream.meaning import execute

Array = NDArray[Any]

VTA = ("vta-pynq", "vta-de10nano")
VTAQ = ("vtaq-1x16x16", "vtaq-tiny", "vtaq-4x16x16", "vtaq-1x32x32")
WRITTEN_BY_NOBODY = 99


def devices(names: tuple[str, ...] = VTAQ) -> st.SearchStrategy[HwConfig]:
    return st.sampled_from(names).map(load_config)


def run(
    op: g.Operator,
    config: HwConfig,
    inputs: list[Array],
    folded: Im2colLayout | None = None,
    request: LayerRequest = PLAIN,
) -> tuple[Array, LoweredOperator]:
    """The operator's output on the stream reference, and what it was lowered to."""
    lowered = lower_operator(op, config, folded, request)
    dram = {name: np.array(tiles) for name, (_, tiles) in lowered.constants.items()}
    for tensor, array in zip(op.inputs, inputs, strict=True):
        dram[tensor.name] = (folded or Blocked(tensor.shape, config.batch, config.block)).pack(
            array
        )
    layout = Blocked(op.output.shape, config.batch, config.block)
    dram[op.output.name] = np.full(
        (layout.size_tiles, config.batch, config.block), WRITTEN_BY_NOBODY, op.output.dtype
    )
    for name, tiles in lowered.scratch.items():
        dram[name] = np.full((tiles, config.batch, config.block), WRITTEN_BY_NOBODY, np.int8)
    execute(lowered.operations, dram, config)
    return layout.unpack(dram[op.output.name]), lowered


def for_samples(op: g.Operator, samples: int) -> g.Operator:
    """The same operator on as many samples."""
    tensors = [
        tuple(replace(t, shape=(samples, *t.shape[1:])) for t in side)
        for side in (op.inputs, op.outputs)
    ]
    return replace(op, inputs=tensors[0], outputs=tensors[1])


def random_inputs(op: g.Operator, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, tensor.shape).astype(np.int8) for tensor in op.inputs]


def tensor(name: str, shape: tuple[int, ...], scale: float = 0.05, zero_point: int = 0) -> g.Tensor:
    return g.Tensor(name, shape, "int8", g.Quantization(float(np.float32(scale)), zero_point))


# --------------------------------------------------------------------------------------------------
# Weighted operators
# --------------------------------------------------------------------------------------------------


def weighted_reference(op: g.Weighted, x: Array) -> Array:
    """What a convolution or dense layer gives, by numerics."""
    weights = op.weights.astype(np.int64) - op.weight_zero_points.reshape(
        -1, *[1] * (op.weights.ndim - 1)
    )
    centred = x.astype(np.int64) - op.input.zero_point
    if isinstance(op, g.Conv2D):
        acc = convolve(
            centred,
            weights,
            strides=op.strides,
            padding=op.padding,
            dilation=op.dilation,
            groups=op.groups,
        )
    else:
        acc = wrap_int32(centred @ weights.T)
    acc = wrap_int32(acc.astype(np.int64) + op.bias)
    multiplier, shift = requantization(op)
    return np.clip(
        requantize(acc, multiplier, shift, op.rounding) + op.output.zero_point, op.low, op.high
    ).astype(np.int8)


@st.composite
def weights_and_quantization(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Everything of a Weighted operator but its tensors."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out = shape[0]
    low, high = sorted(rng.integers(-128, 128, 2).tolist()) if draw(st.booleans()) else (-128, 127)
    farthest = draw(
        st.sampled_from([0, 0, 0, 2, 128])
    )  # zero points of weights; of 2 only the largest weights need nine bits
    return {
        "weights": rng.integers(-128, 128, shape).astype(np.int8),
        "weight_scales": (10 ** rng.uniform(-3.5, -2.5, out)).astype(np.float32),
        "weight_zero_points": rng.integers(-farthest, farthest, out, endpoint=True)
        .clip(-128, 127)
        .astype(np.int32),
        "bias": rng.integers(-2000, 2000, out).astype(np.int32),
        "low": low,
        "high": high,
        "rounding": draw(st.sampled_from([Rounding.DOUBLE, Rounding.FLOAT32])),
    }


zero_points = st.integers(-128, 127)


@st.composite
def convolutions(draw: Any, config: HwConfig, largest_channels: int = 60) -> g.Conv2D:
    """Any kernel, strides, dilation, padding and groups on a small image."""
    kernel, strides, dilation = (
        tuple(draw(st.integers(1, n)) for _ in range(2)) for n in (5, 3, 2)
    )
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [draw(st.integers(r, 20)) for r in reach]
    padding = tuple(draw(st.integers(0, reach[axis % 2] - 1)) for axis in range(4))
    kind = draw(st.sampled_from(["dense", "depthwise", "grouped"]))
    if kind == "dense":
        groups, in_group, out = (
            1,
            draw(st.integers(1, largest_channels)),
            draw(st.integers(1, largest_channels)),
        )
    elif kind == "depthwise":
        groups, in_group = draw(st.integers(2, largest_channels)), 1
        out = groups * draw(st.integers(1, 2))
    else:
        groups, in_group = draw(st.integers(2, 6)), draw(st.sampled_from([1, 2, 4, 5, 8, 16]))
        out = groups * draw(st.sampled_from([1, 3, 4, 8, 16]))
    n = config.batch * draw(st.integers(1, 2))
    rows, columns = (
        (size[a] + padding[a] + padding[a + 2] - reach[a]) // strides[a] + 1 for a in (0, 1)
    )
    return g.Conv2D(
        name="conv",
        inputs=(tensor("x", (n, *size, groups * in_group), zero_point=draw(zero_points)),),
        outputs=(tensor("y", (n, rows, columns, out), zero_point=draw(zero_points)),),
        strides=strides,
        dilation=dilation,
        padding=padding,
        groups=groups,
        **draw(weights_and_quantization((out, *kernel, in_group))),
    )


def small_convolution() -> g.Conv2D:
    """3x3 on 6x5 pixels and 4 channels, scales that are powers of two, rounded as a shift does."""
    rng = np.random.default_rng(5)
    return g.Conv2D(
        name="conv",
        inputs=(tensor("x", (1, 6, 5, 4), 0.0625, 3),),
        outputs=(tensor("y", (1, 6, 5, 7), 0.0625, -2),),
        weights=rng.integers(-128, 128, (7, 3, 3, 4)).astype(np.int8),
        weight_scales=np.full(7, 2.0**-9, np.float32),
        weight_zero_points=np.zeros(7, np.int32),
        bias=rng.integers(-2000, 2000, 7).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.SINGLE,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(1, 1, 1, 1),
        groups=1,
    )


def small_dense() -> g.Dense:
    rng = np.random.default_rng(6)
    return g.Dense(
        name="dense",
        inputs=(tensor("x", (1, 20), 0.0625),),
        outputs=(tensor("y", (1, 33), 0.0625),),
        weights=rng.integers(-128, 128, (33, 20)).astype(np.int8),
        weight_scales=np.full(33, 2.0**-8, np.float32),
        weight_zero_points=np.zeros(33, np.int32),
        bias=rng.integers(-2000, 2000, 33).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.SINGLE,
    )


@st.composite
def with_shifts(draw: Any, op: g.Weighted) -> g.Weighted:
    """The same operator with scales that are powers of two, rounded as a shift does."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out = op.weights.shape[0]
    spread = draw(st.sampled_from([0, 0, 3]))
    shifts = draw(st.integers(4, 14)) + rng.integers(0, spread + 1, out)
    source, target = (
        replace(t, quantization=g.Quantization(0.0625, t.zero_point)) for t in (op.input, op.output)
    )
    scales = np.ldexp(1.0, -shifts).astype(np.float32)
    return replace(
        op, inputs=(source,), outputs=(target,), weight_scales=scales, rounding=Rounding.SINGLE
    )


@st.composite
def dense_layers(draw: Any, config: HwConfig) -> g.Dense:
    rows, inputs, out = (
        config.batch * draw(st.integers(1, 5)),
        draw(st.integers(1, 200)),
        draw(st.integers(1, 200)),
    )
    return g.Dense(
        name="dense",
        inputs=(tensor("x", (rows, inputs), zero_point=draw(zero_points)),),
        outputs=(tensor("y", (rows, out), zero_point=draw(zero_points)),),
        **draw(weights_and_quantization((out, inputs))),
    )


# --------------------------------------------------------------------------------------------------
# The others
# --------------------------------------------------------------------------------------------------


def reference(op: g.Operator, inputs: list[Array]) -> Array:
    """What the operator means."""
    (result,) = graph_reference.run_operator(op, inputs)
    return result


@st.composite
def clamps(draw: Any) -> dict[str, Any]:
    low, high = (
        sorted((draw(zero_points), draw(zero_points))) if draw(st.booleans()) else (-128, 127)
    )
    return {
        "low": low,
        "high": high,
        "rounding": draw(st.sampled_from([Rounding.DOUBLE, Rounding.FLOAT32])),
    }


scales = st.floats(0.002, 0.2)


@st.composite
def images(draw: Any, config: HwConfig, largest: int = 14) -> tuple[int, int, int, int]:
    n = config.batch * draw(st.integers(1, 2))
    return (
        n,
        draw(st.integers(1, largest)),
        draw(st.integers(1, largest)),
        draw(st.integers(1, 60)),
    )


@st.composite
def elementwise(
    draw: Any, config: HwConfig, scales: st.SearchStrategy[float] = scales
) -> g.Operator:
    shape = draw(images(config))
    tensors = [tensor(name, shape, draw(scales), draw(zero_points)) for name in ("a", "b", "y")]
    kind = draw(st.sampled_from([g.Add, g.Sub, g.Mul, g.Requantize]))
    if kind is g.Requantize:
        return g.Requantize(
            name="op", inputs=(tensors[0],), outputs=(tensors[2],), **draw(clamps())
        )
    if draw(st.integers(0, 3)) == 0:  # one value per sample and channel
        tensors[draw(st.integers(0, 1))] = tensor(
            "c", (shape[0], 1, 1, shape[3]), draw(scales), draw(zero_points)
        )
    return kind(name="op", inputs=(tensors[0], tensors[1]), outputs=(tensors[2],), **draw(clamps()))


@st.composite
def averages(draw: Any, config: HwConfig) -> g.Operator:
    shape = draw(images(config))
    q_in = (draw(scales), draw(zero_points))
    kind = draw(st.sampled_from(["mean", "global", "pool", "padded"]))
    if kind == "mean":
        out = draw(st.sampled_from([(shape[0], shape[3]), (shape[0], 1, 1, shape[3])]))
        outputs = (tensor("y", out, draw(scales), draw(zero_points)),)
        return g.Mean(
            name="op",
            inputs=(tensor("x", shape, *q_in),),
            outputs=outputs,
            axes=(1, 2),
            **draw(clamps()),
        )
    clamp = draw(clamps())
    kernel = shape[1:3] if kind == "global" else tuple(draw(st.integers(1, n)) for n in shape[1:3])
    strides = tuple(draw(st.integers(1, 3)) for _ in range(2))
    padding = (
        tuple(draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4))
        if kind == "padded"
        else (0, 0, 0, 0)
    )
    size = tuple(
        (shape[1 + a] + padding[a] + padding[a + 2] - kernel[a]) // strides[a] + 1 for a in (0, 1)
    )
    return g.AveragePool2D(
        name="op",
        inputs=(tensor("x", shape, *q_in),),
        outputs=(tensor("y", (shape[0], *size, shape[3]), *q_in),),
        kernel=kernel,
        strides=strides,
        padding=padding,
        count_include_pad=clamp["rounding"] is Rounding.FLOAT32 and draw(st.booleans()),
        unsigned=clamp["rounding"] is Rounding.DOUBLE and draw(st.booleans()),
        **clamp,
    )


@st.composite
def moves(draw: Any, config: HwConfig) -> g.Operator:
    n, h, w, c = draw(images(config, 10))
    x, kind = (
        tensor("x", (n, h, w, c)),
        draw(
            st.sampled_from(
                ["pad", "rows", "channels", "resize", "spread", "bilinear", "concatenate", "pool"]
            )
        ),
    )
    few, factors = st.integers(0, 3), st.sampled_from([1, 2, 4])
    if kind == "pad":
        before, after = (0, draw(few), draw(few), 0), (0, draw(few), draw(few), 0)
        out = tensor("y", (n, h + before[1] + after[1], w + before[2] + after[2], c))
        return g.Pad(
            name="op",
            inputs=(x,),
            outputs=(out,),
            before=before,
            after=after,
            value=draw(zero_points),
        )
    if kind in ("rows", "channels"):
        moved = (1, 2) if kind == "rows" else (3,)
        first, steps, size = [0, 0, 0, 0], [1, 1, 1, 1], [n, h, w, c]
        for axis in moved:
            extent = size[axis]
            first[axis], steps[axis] = draw(st.integers(0, extent - 1)), draw(st.integers(1, 3))
            size[axis] = draw(st.integers(1, (extent - first[axis] - 1) // steps[axis] + 1))
        return g.Slice(
            name="op",
            inputs=(x,),
            outputs=(tensor("y", tuple(size)),),
            begin=tuple(first),
            strides=tuple(steps),
        )
    if kind == "resize":
        out = tensor("y", (n, h * draw(st.integers(1, 3)), w * draw(st.integers(1, 3)), c))
        flags = {
            "align_corners": False,
            "half_pixel_centers": draw(st.booleans()),
            "rounding": Rounding.DOUBLE,
        }
        return g.ResizeNearest(name="op", inputs=(x,), outputs=(out,), **flags)
    if kind == "spread":
        out = tensor("y", (n, h, w, c))
        flags = {
            "align_corners": draw(st.booleans()),
            "half_pixel_centers": False,
            "rounding": Rounding.DOUBLE,
        }
        return g.ResizeBilinear(
            name="op", inputs=(tensor("x", (n, 1, 1, c)),), outputs=(out,), **flags
        )
    if kind == "bilinear":
        corners = draw(st.booleans())
        size = tuple(
            factor * (extent - 1) + 1 if corners else factor * extent
            for extent, factor in ((h, draw(factors)), (w, draw(factors)))
        )
        flags = {
            "align_corners": corners,
            "half_pixel_centers": not corners and draw(st.booleans()),
            "rounding": Rounding.DOUBLE,
        }
        out = tensor("y", (n, *size, c))
        return g.ResizeBilinear(
            name="op", inputs=(x,), outputs=(out,), unsigned=draw(st.booleans()), **flags
        )
    if kind == "concatenate":
        widths = draw(st.lists(st.sampled_from([1, 3, 8, 16, 20, 32]), min_size=1, max_size=4))
        inputs = tuple(tensor(f"x{i}", (n, h, w, width)) for i, width in enumerate(widths))
        return g.Concatenate(
            name="op",
            inputs=inputs,
            outputs=(tensor("y", (n, h, w, sum(widths))),),
            axis=3,
            **draw(clamps()),
        )
    kernel, strides = (tuple(draw(st.integers(1, 3)) for _ in range(2)) for _ in range(2))
    padding = tuple(draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4))
    padding = tuple(
        max(pad, kernel[axis % 2] - (h, w)[axis % 2] if axis < 2 else 0)
        for axis, pad in enumerate(padding)
    )
    size = tuple(
        ((h, w)[a] + padding[a] + padding[a + 2] - kernel[a]) // strides[a] + 1 for a in (0, 1)
    )
    return g.MaxPool2D(
        name="op",
        inputs=(x,),
        outputs=(tensor("y", (n, *size, c)),),
        kernel=kernel,
        strides=strides,
        padding=padding,
        **draw(clamps()),
    )
