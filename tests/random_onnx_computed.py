# SPDX-License-Identifier: Apache-2.0
"""Random ONNX operators that compute: with weights, on elements, pools, functions.

In:   random_onnx_values.py: two models under construction.
Out:  Computed: each method draws an operator on x, and says whether it could.
Next: random_onnx.py makes networks of them.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from loadstone.graph import Quantization
from tests.random_onnx_values import Array, Value, Values
from tests.random_tflite_values import MAX_ELEMENTS, MAX_MACS

#: Weights within 7 bits: without dot product instructions ONNX Runtime saturates the sum of two
#: products to 16 bits.
MAX_WEIGHT = 63


class Computed(Values):
    """Operators that compute: each draws itself on x, and says whether it could."""

    def weighted(
        self, x: Value, weights_shape: tuple[int, ...], q: Quantization | None
    ) -> tuple[Any, ...]:
        """Weights (O, ...), their scales, bias, output quantization."""
        draw = self.draw
        channels = weights_shape[0]
        weights = draw.rng.integers(-MAX_WEIGHT, MAX_WEIGHT, weights_shape, np.int8, endpoint=True)
        scales = draw.weight_scales(channels if draw.chance(2) and channels > 1 else 1)
        product = np.float32(x.q.scale) * scales
        q = q or self.spread(float(np.median(product)) * 75 * 37 * sqrt(weights[0].size) / 60)
        limit = np.clip(np.float64(q.scale) / product * 60, 1, 2**30)
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
        x: Value,
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
        self, x: Value, q: Quantization | None = None, *, same: bool = False, out: int = 0
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
        x: Value,
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

    def dense(self, x: Value) -> bool:
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

    def elementwise(self, x: Value) -> bool:
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

    def two(self, kind: str, a: Value, b: Value) -> bool:
        q = self.spread(
            a.q.scale * b.q.scale * 75 if kind == "Mul" else max(a.q.scale, b.q.scale) * 2
        )
        self.trio(kind, [a, b], np.broadcast_shapes(a.shape, b.shape), q)
        return True

    def pool(self, x: Value) -> bool:
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
        x: Value,
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

    def activation(self, x: Value) -> bool:
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
