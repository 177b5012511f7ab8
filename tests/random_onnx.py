"""Random int8 and uint8 ONNX networks, twice: as a model to compile, and as one that ONNX Runtime
computes as it is meant.

In:   a seed.
Out:  the bytes of two .onnx files and an account of their operators; `inputs` draws samples.
Next: test_random_graphs.py compiles the first and compares with what ONNX Runtime makes of the
      second.

QDQ says conv(dequantize(x), dequantize(w)) in float32, which ONNX Runtime computes literally,
rounding sums on the way, or fuses into an integer kernel; the integers are what is meant
(docs/numerics.md). So the model for ONNX Runtime has QLinearConv,
QLinearMatMul and QGemm, and the model to compile has those in one half of the networks and their
QDQ form in the other. An average is the sum of integers there, rounded once. All other operators
are the same in both, and ONNX Runtime's graph optimisations are off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from tests.draw import Random
from tests.onnx_builder import Graph
from tests.random_tflite import MAX_ELEMENTS, MAX_MACS, draw_inputs

__all__ = ["Network", "network"]

Array = NDArray[Any]
#: Weights within 7 bits: without dot product instructions ONNX Runtime saturates the sum of two
#: products to 16 bits.
MAX_WEIGHT = 63


@dataclass
class Network:
    """`model` is to be compiled, `reference` says what it means."""

    model: bytes
    reference: bytes
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: int
    operators: list[str]

    def draw_inputs(self, seed: int, samples: int) -> list[Array]:
        """One array per input, with a leading axis of samples."""
        return draw_inputs(self.inputs, seed, samples)


def network(seed: int) -> Network:
    """Network number `seed`. Every second one is a single operator."""
    return _Grower(seed).network()


@dataclass(frozen=True, eq=False)
class _Value:
    """An integer tensor: its names in the model and in the reference."""

    names: tuple[str, str]
    shape: tuple[int, ...]
    q: Quantization
    is_input: bool = False


@dataclass
class _Grower:
    seed: int
    operators: list[str] = field(default_factory=list)
    values: list[_Value] = field(default_factory=list)
    inputs: list[_Value] = field(default_factory=list)
    read: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.unsigned = self.draw.int(0, 1) == 0
        self.qdq = self.draw.int(0, 1) == 0
        self.dtype = np.dtype(np.uint8 if self.unsigned else np.int8)
        self.graphs = (Graph(), Graph())

    def network(self) -> Network:
        self.input(self.shape())
        wanted = 1 if self.seed % 2 else self.draw.int(2, 7)
        while len(self.operators) < wanted:
            self.grow()
        made = [value for value in self.values if not value.is_input]
        chosen = [value for value in made if id(value) not in self.read or self.draw.chance(6)]
        shapes = [value.shape for value in chosen]
        model, reference = (
            graph.save([(v.names[k], self.dtype) for v in chosen], shapes)
            for k, graph in enumerate(self.graphs)
        )
        return Network(
            model,
            reference,
            [(v.shape, self.dtype) for v in self.inputs],
            len(chosen),
            self.operators,
        )

    def grow(self) -> None:
        kinds: list[Callable[[_Value], bool]] = [
            *(
                [self.convolution] * 6
                + [self.dense] * 2
                + [self.elementwise] * 2
                + [self.pool] * 2
                + [self.activation] * 2
            ),
            *(
                self.concatenation,
                self.slice,
                self.pad,
                self.reshape,
                self.resize,
                self.transpose,
                self.residual,
                self.branches,
            ),
        ]
        x = self.draw.pick(self.values[-3:]) if self.draw.chance(2) else self.values[-1]
        self.draw.pick(kinds)(x)

    # -- values ------------------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = (1, self.draw.channels(), self.draw.int(1, 16), self.draw.int(1, 16))
            if prod(shape) <= MAX_ELEMENTS:
                return shape

    def zero_point(self, q: Quantization) -> int:
        return q.zero_point + 128 * self.unsigned

    def spread(self, scale: float) -> Quantization:
        """For values that reach about `scale` * 100."""
        return self.draw.quantization(self.draw.near(scale))

    def input(self, shape: tuple[int, ...], q: Quantization | None = None) -> _Value:
        names = tuple(graph.input(shape, self.dtype) for graph in self.graphs)
        value = _Value((names[0], names[1]), shape, q or self.draw.quantization(), is_input=True)
        self.inputs.append(value)
        self.values.insert(0, value)
        return value

    def done(
        self,
        kind: str,
        inputs: list[_Value],
        names: tuple[str, str],
        shape: tuple[int, ...],
        q: Quantization,
    ) -> _Value:
        value = _Value(names, tuple(int(n) for n in shape), q)
        self.read.update(id(x) for x in inputs)
        self.values.append(value)
        sizes = " ".join("x".join(map(str, x.shape)) for x in inputs)
        self.operators.append(f"{kind} {sizes} -> {'x'.join(map(str, value.shape))}")
        return value

    def real(self, which: int, x: _Value) -> str:
        return self.graphs[which].dequantize(
            x.names[which], x.q.scale, self.zero_point(x.q), self.dtype
        )

    def quantize(self, which: int, name: str, q: Quantization) -> str:
        return self.graphs[which].quantize(name, q.scale, self.zero_point(q), self.dtype)

    def trio(
        self,
        kind: str,
        inputs: list[_Value],
        shape: tuple[int, ...],
        q: Quantization,
        constants: tuple[Any, ...] = (),
        **options: Any,
    ) -> _Value:
        """Dequantize, the operator, quantize: in both models."""
        names = []
        for which, graph in enumerate(self.graphs):
            operands = [self.real(which, x) for x in inputs] + [
                "" if c is None else graph.constant(c) for c in constants
            ]
            names.append(self.quantize(which, graph.node(kind, *operands, **options), q))
        return self.done(kind, inputs, (names[0], names[1]), shape, q)

    # -- operators: each draws itself on x, and says whether it could ------------------------------

    def weighted(
        self, x: _Value, weights_shape: tuple[int, ...], q: Quantization | None
    ) -> tuple[Any, ...]:
        """Weights (O, ...), their scales, bias, output quantization."""
        draw = self.draw
        channels = weights_shape[0]
        weights = draw.rng.integers(-MAX_WEIGHT, MAX_WEIGHT, weights_shape, np.int8, endpoint=True)
        scales = draw.weight_scales(channels if draw.chance(2) and channels > 1 else 1)
        product = np.float32(x.q.scale) * scales
        q = q or self.spread(float(np.median(product)) * 75 * 37 * sqrt(weights[0].size) / 60)
        limit = np.minimum(np.float64(q.scale) / product * 60, 2**30)
        return (
            weights,
            scales if scales.size > 1 else scales[0],
            draw.rng.integers(-limit, limit, channels).astype(np.int32),
            q,
        )

    def qlinear(
        self,
        which: int,
        kind: str,
        x: _Value,
        weights: Array,
        scales: Any,
        bias: Array | None,
        q: Quantization,
        **options: Any,
    ) -> str:
        graph = self.graphs[which]
        operands = [
            x.names[which],
            graph.constant(x.q.scale, np.float32),
            graph.constant(self.zero_point(x.q), self.dtype),
        ]
        operands += [
            graph.constant(weights),
            graph.constant(scales, np.float32),
            graph.constant(np.zeros_like(scales, np.int8)),
        ]
        out = [graph.constant(q.scale, np.float32), graph.constant(self.zero_point(q), self.dtype)]
        last = [] if bias is None else [graph.constant(bias)]
        operands += [*last, *out] if kind == "QGemm" else [*out, *last]
        return graph.node(
            kind, *operands, domain="com.microsoft" if kind == "QGemm" else "", **options
        )

    def activated(
        self,
        which: int,
        name: str,
        q: Quantization,
        activation: tuple[str, tuple[float, ...]] | None,
        *,
        real: bool,
    ) -> str:
        """name: a real tensor, or one in q; the result is in q."""
        graph = self.graphs[which]
        if activation is not None:
            source = (
                name if real else graph.dequantize(name, q.scale, self.zero_point(q), self.dtype)
            )
            bounds = [graph.constant(bound, np.float32) for bound in activation[1]]
            return self.quantize(which, graph.node(activation[0], source, *bounds), q)
        return self.quantize(which, name, q) if real else name

    def convolution(
        self, x: _Value, q: Quantization | None = None, *, same: bool = False, out: int = 0
    ) -> bool:
        if len(x.shape) != 4:
            return False
        draw, (_, channels, height, width) = self.draw, x.shape
        kernel = (
            (draw.int(1, 5), draw.int(1, 5))
            if draw.chance(2)
            else draw.pick([(1, 1), (3, 3), (3, 3), (7, 7)])
        )
        strides, dilation = (1, 1), (1, 1)
        pads = [(kernel[k % 2] - 1) // 2 if k < 2 else kernel[k % 2] // 2 for k in range(4)]
        if not same:
            strides = (draw.int(1, 3), draw.int(1, 3)) if draw.chance(3) else strides
            dilation = (draw.int(1, 3), draw.int(1, 3)) if draw.chance(5) else dilation
            pads = [draw.int(0, kernel[k % 2] - 1) for k in range(4)]
        divisors = [n for n in range(1, channels + 1) if channels % n == 0]
        kind = draw.pick(["dense", "dense", "depthwise", "grouped"]) if not out else "dense"
        groups = {"dense": 1, "depthwise": channels, "grouped": int(draw.pick(divisors))}[kind]
        out = out or groups * (
            draw.int(1, 2) if kind == "depthwise" else max(1, draw.channels() // groups)
        )
        size = [
            (n + pads[k] + pads[k + 2] - dilation[k] * (kernel[k] - 1) - 1) // strides[k] + 1
            for k, n in enumerate((height, width))
        ]
        taps = prod(kernel) * channels // groups
        if min(size) < 1 or prod(size) * out * taps > MAX_MACS or prod(size) * out > MAX_ELEMENTS:
            return False
        weights, scales, bias, q = self.weighted(x, (out, channels // groups, *kernel), q)
        options = {
            "strides": strides,
            "pads": pads,
            "dilations": dilation,
            "group": groups,
            "kernel_shape": kernel,
        }
        names = (
            self.conv(0, x, weights, scales, bias, q, options),
            self.qlinear(1, "QLinearConv", x, weights, scales, bias, q, **options),
        )
        activation = draw.pick([None, None, ("Relu", ()), ("Clip", (0.0, 6.0))])
        model = self.activated(0, names[0], q, activation, real=self.qdq)
        self.done(
            "Conv",
            [x],
            (model, self.activated(1, names[1], q, activation, real=False)),
            (1, out, *size),
            q,
        )
        return True

    def conv(
        self,
        which: int,
        x: _Value,
        weights: Array,
        scales: Any,
        bias: Array,
        q: Quantization,
        options: dict[str, Any],
    ) -> str:
        """The real result of the QDQ form, or QLinearConv's."""
        if not self.qdq:
            return self.qlinear(which, "QLinearConv", x, weights, scales, bias, q, **options)
        graph = self.graphs[which]
        w = graph.dequantize(
            graph.constant(weights), scales, np.zeros_like(scales, np.int8), axis=0
        )
        product = np.float32(x.q.scale) * scales
        b = graph.dequantize(
            graph.constant(bias), product, np.zeros_like(product, np.int32), np.int32, axis=0
        )
        return graph.node("Conv", self.real(which, x), w, b, **options)

    def dense(self, x: _Value) -> bool:
        """Gemm with a bias, or MatMul without; a flatten before it where x is an image."""
        size, out = prod(x.shape[1:]), self.draw.channels()
        if size * out > MAX_MACS // 4:
            return False
        if len(x.shape) == 4:
            x = self.trio("Flatten", [x], (1, size), x.q)
        weights, scales, bias, q = self.weighted(x, (out, size), None)
        kind = self.draw.pick(["Gemm", "MatMul"])
        own = bias if kind == "Gemm" else None
        qlinear = {"Gemm": "QGemm", "MatMul": "QLinearMatMul"}[kind]
        reference = self.qlinear(1, qlinear, x, np.ascontiguousarray(weights.T), scales, own, q)
        if self.qdq:
            graph = self.graphs[0]
            w = graph.dequantize(
                graph.constant(np.ascontiguousarray(weights.T)),
                scales,
                np.zeros_like(scales, np.int8),
                axis=1,
            )
            operands = [self.real(0, x), w]
            if own is not None:
                product = np.float32(x.q.scale) * scales
                operands.append(
                    graph.dequantize(
                        graph.constant(own),
                        product,
                        np.zeros_like(product, np.int32),
                        np.int32,
                        axis=0,
                    )
                )
            model = self.quantize(0, graph.node(kind, *operands), q)
        else:
            model = self.qlinear(0, qlinear, x, np.ascontiguousarray(weights.T), scales, own, q)
        self.done(kind, [x], (model, reference), (1, out), q)
        return True

    def elementwise(self, x: _Value) -> bool:
        kind = self.draw.pick(["Add", "Add", "Sub", "Mul"])
        others = [value for value in self.values if value.shape == x.shape]
        other = (
            self.draw.pick(others)
            if self.draw.int(0, 2)
            else self.input(
                x.shape if self.draw.chance(2) else (1, x.shape[1], *[1] * (len(x.shape) - 2))
            )
        )
        return self.two(kind, x, other)

    def residual(self, x: _Value) -> bool:
        """x + f(x)."""
        return (
            len(x.shape) == 4
            and self.convolution(x, same=True, out=x.shape[1])
            and self.two("Add", x, self.values[-1])
        )

    def two(self, kind: str, a: _Value, b: _Value) -> bool:
        q = self.spread(
            a.q.scale * b.q.scale * 75 if kind == "Mul" else max(a.q.scale, b.q.scale) * 2
        )
        self.trio(kind, [a, b], np.broadcast_shapes(a.shape, b.shape), q)
        return True

    def pool(self, x: _Value) -> bool:
        if len(x.shape) != 4:
            return False
        draw = self.draw
        kind = draw.pick(
            ["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean"]
        )
        q = (
            x.q
            if kind in ("MaxPool", "GlobalMaxPool") or draw.chance(2)
            else self.spread(x.q.scale)
        )
        if kind in ("MaxPool", "AveragePool"):
            kernel, strides = (draw.int(1, 4), draw.int(1, 4)), (draw.int(1, 3), draw.int(1, 3))
            pads = [draw.int(0, kernel[k % 2] // 2) for k in range(4)]
            size = [
                (x.shape[2 + k] + pads[k] + pads[k + 2] - kernel[k]) // strides[k] + 1
                for k in (0, 1)
            ]
            if min(size) < 1:
                return False
            options: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
            if kind == "MaxPool":
                self.trio(kind, [x], (1, x.shape[1], *size), q, **options)
            else:
                self.average(kind, x, q, (1, x.shape[1], *size), options, draw.int(0, 1))
        elif kind == "ReduceMean":
            keep = draw.int(0, 1)
            self.average(
                kind,
                x,
                q,
                (*x.shape[:2], 1, 1) if keep else x.shape[:2],
                {"axes": [2, 3], "keepdims": keep},
            )
        elif kind == "GlobalMaxPool":
            self.trio(kind, [x], (*x.shape[:2], 1, 1), q)
        else:
            self.average(kind, x, q, (*x.shape[:2], 1, 1), {})
        return True

    def average(
        self,
        kind: str,
        x: _Value,
        q: Quantization,
        shape: tuple[int, ...],
        options: dict[str, Any],
        padded: int = 0,
    ) -> None:
        """The operator in the model; in the reference the sum of integers, times one float32
        number, rounded (docs/numerics.md)."""
        more = {"count_include_pad": padded} if kind == "AveragePool" else {}
        model = self.quantize(0, self.graphs[0].node(kind, self.real(0, x), **options, **more), q)
        graph, zero_point = self.graphs[1], np.float32(self.zero_point(x.q))
        window = options if kind == "AveragePool" else {"kernel_shape": x.shape[2:]}
        centred = graph.node(
            "Sub", graph.node("Cast", x.names[1], to=1), graph.constant(zero_point)
        )
        ones = np.ones((x.shape[1], 1, *window["kernel_shape"]), np.float32)
        total = graph.node("Conv", centred, graph.constant(ones), group=x.shape[1], **window)
        counts = np.full(shape[2:] or (1, 1), prod(window["kernel_shape"]), np.float32)
        if kind == "AveragePool" and not padded:
            (top, left, bottom, right), inside = options["pads"], np.ones(x.shape[2:], np.float32)
            inside = np.pad(inside, ((top, bottom), (left, right)))
            views = np.lib.stride_tricks.sliding_window_view(inside, options["kernel_shape"])
            counts = views[:: options["strides"][0], :: options["strides"][1]].sum(
                (-2, -1), dtype=np.float32
            )
        scales = np.float32(x.q.scale) / (counts * np.float32(q.scale))
        steps = graph.node("Round", graph.node("Mul", total, graph.constant(scales)))
        moved = graph.node("Add", steps, graph.constant(np.float32(self.zero_point(q))))
        limits = np.iinfo(self.dtype)
        clamped = graph.node(
            "Clip",
            moved,
            graph.constant(np.float32(limits.min)),
            graph.constant(np.float32(limits.max)),
        )
        integers = graph.node("Cast", clamped, to=2 if self.unsigned else 3)
        result = graph.node("Reshape", integers, graph.constant(np.array(shape, np.int64)))
        self.done(kind, [x], (model, result), shape, q)

    def activation(self, x: _Value) -> bool:
        q = x.q if self.draw.chance(2) else self.spread(x.q.scale)
        if self.draw.chance(2):
            self.trio("Relu", [x], x.shape, q)
        else:
            self.trio(
                "Clip",
                [x],
                x.shape,
                q,
                (np.float32(self.draw.pick([0.0, -1.0])), np.float32(self.draw.pick([1.0, 6.0]))),
            )
        return True

    def branches(self, x: _Value) -> bool:
        """A concatenation of two or three convolutions of x: of one quantization, or each of its
        own."""
        if len(x.shape) != 4:
            return False
        q = self.spread(x.q.scale * 2) if self.draw.chance(2) else None
        before = len(self.values)
        for _ in range(self.draw.int(2, 3)):
            self.convolution(x, q, same=True)
        parts = self.values[before:]
        return bool(parts) and self.join(parts, 1, q or parts[0].q)

    def concatenation(self, x: _Value) -> bool:
        axis = self.draw.pick([1, 1, 1, 2, 3]) if len(x.shape) == 4 else 1
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        fitting = [
            v
            for v in self.values
            if len(v.shape) == len(x.shape) and v.shape[:axis] + v.shape[axis + 1 :] == rest
        ]
        parts = [x, *(self.draw.pick(fitting) for _ in range(self.draw.int(1, 2)))]
        return self.join(parts, axis, x.q if self.draw.chance(2) else self.spread(x.q.scale))

    def join(self, parts: list[_Value], axis: int, q: Quantization) -> bool:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        if prod(shape) > 2 * MAX_ELEMENTS:
            return False
        self.trio("Concat", parts, tuple(shape), q, axis=axis)
        return True

    def slice(self, x: _Value) -> bool:
        axes = self.draw.pick([[1], [2, 3]]) if len(x.shape) == 4 else [1]
        begins, ends, steps, shape = [], [], [], list(x.shape)
        for axis in axes:
            begins.append(
                self.draw.int(0, x.shape[axis] - 1) // (16 if self.draw.chance(3) else 1) * 1
            )
            ends.append(self.draw.int(begins[-1] + 1, x.shape[axis]))
            steps.append(self.draw.int(1, 2))
            shape[axis] = -(-(ends[-1] - begins[-1]) // steps[-1])
        self.trio(
            "Slice",
            [x],
            tuple(shape),
            x.q,
            tuple(np.array(v, np.int64) for v in (begins, ends, axes, steps)),
        )
        return True

    def pad(self, x: _Value) -> bool:
        """By zeros."""
        if len(x.shape) != 4:
            return False
        pads = [
            0,
            0,
            self.draw.int(0, 3),
            self.draw.int(0, 3),
            0,
            0,
            self.draw.int(0, 3),
            self.draw.int(0, 3),
        ]
        shape = tuple(
            n + before + after for n, before, after in zip(x.shape, pads[:4], pads[4:], strict=True)
        )
        if prod(shape) > MAX_ELEMENTS:
            return False
        self.trio(
            "Pad", [x], shape, x.q, (np.array(pads, np.int64), np.float32(0)), mode="constant"
        )
        return True

    def reshape(self, x: _Value) -> bool:
        choices = [(1, prod(x.shape[1:]))]
        if len(x.shape) == 4:
            choices += [
                (1, x.shape[1], 1, x.shape[2] * x.shape[3]),
                (1, x.shape[1], x.shape[3], x.shape[2]),
            ]
        else:
            choices += [(1, x.shape[1], 1, 1)]
        shape = self.draw.pick(choices)
        self.trio("Reshape", [x], shape, x.q, (np.array(shape, np.int64),))
        return True

    def transpose(self, x: _Value) -> bool:
        if len(x.shape) != 4:
            return False
        permutation = self.draw.pick([(0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 1, 2)])
        self.trio(
            "Transpose", [x], tuple(x.shape[axis] for axis in permutation), x.q, perm=permutation
        )
        return True

    def resize(self, x: _Value) -> bool:
        """By integer factors."""
        if len(x.shape) != 4:
            return False
        size = (x.shape[2] * self.draw.int(1, 3), x.shape[3] * self.draw.int(1, 3))
        if prod(size) * x.shape[1] > MAX_ELEMENTS:
            return False
        mode, rule = (
            self.draw.pick(["nearest", "linear"]),
            self.draw.pick(["asymmetric", "half_pixel", "align_corners"]),
        )
        options = {"mode": mode, "coordinate_transformation_mode": rule}
        if mode == "nearest":
            options["nearest_mode"] = "floor" if rule == "asymmetric" else "round_prefer_ceil"
        sizes = np.array([1, x.shape[1], *size], np.int64)
        self.trio("Resize", [x], (1, x.shape[1], *size), x.q, (None, None, sizes), **options)
        return True
