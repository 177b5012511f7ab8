"""Random int8 and uint8 TFLite networks: single operators and small graphs, as a converter could
have written them.

In:   a seed.
Out:  the bytes of a .tflite file and an account of its operators; `inputs` draws samples.
Next: test_random_graphs.py compiles them and compares with LiteRT's reference kernels.

A network grows from its inputs: an operator is drawn with one of the tensors that are there, so
that chains, branches and tensors with several readers come by themselves; residual additions and
concatenations of branches are drawn on purpose.
Scales of outputs fit the spread of their values: a network of saturated values would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.windows import same_padding
from tests.draw import Random
from tests.tflite_builder import Activation, Graph, Padding, Tensor

__all__ = ["MAX_ELEMENTS", "MAX_MACS", "Network", "draw_inputs", "network"]

Array = NDArray[Any]
MAX_ELEMENTS = 8_000
MAX_MACS = 400_000
ACTIVATIONS = (
    Activation.NONE,
    Activation.NONE,
    Activation.NONE,
    Activation.RELU,
    Activation.RELU6,
    Activation.RELU_N1_TO_1,
)


@dataclass
class Network:
    """A model, and what there is to know of it."""

    model: bytes
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: int
    operators: list[str]

    def draw_inputs(self, seed: int, samples: int) -> list[Array]:
        """One array per input, with a leading axis of samples."""
        return draw_inputs(self.inputs, seed, samples)


def draw_inputs(
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]], seed: int, samples: int
) -> list[Array]:
    """Values over the whole range of their types."""
    rng = np.random.default_rng(seed)
    limits = [np.iinfo(dtype) for _, dtype in inputs]
    drawn = zip(inputs, limits, strict=True)
    return [
        rng.integers(limit.min, limit.max, (samples, *shape), dtype, endpoint=True)
        for (shape, dtype), limit in drawn
    ]


def network(seed: int) -> Network:
    """Network number `seed`. Every second one is a single operator."""
    return _Grower(seed).network()


@dataclass
class _Grower:
    seed: int
    graph: Graph = field(default_factory=Graph)
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.unsigned = self.draw.int(0, 3) == 0
        self.dtype = np.dtype(np.uint8 if self.unsigned else np.int8)

    def network(self) -> Network:
        self.input(self.shape())
        wanted = 1 if self.seed % 2 else self.draw.int(2, 7)
        while len(self.operators) < wanted:
            self.grow()
        outputs = self.outputs()
        inputs = [(tensor.shape, tensor.dtype) for tensor in self.graph.inputs]
        return Network(self.graph.save(outputs), inputs, len(outputs), self.operators)

    def outputs(self) -> list[Tensor]:
        """All that nothing reads, and now and then one in the middle."""
        read = {index for operator in self.graph.operators for index in operator.inputs}
        made = [tensor for tensor in self.tensors if tensor not in self.graph.inputs]
        ends = [tensor for tensor in made if tensor.index not in read]
        middle = [tensor for tensor in made if tensor.index in read and self.draw.chance(6)]
        return ends + middle

    def grow(self) -> None:
        kinds: list[Callable[[Tensor], bool]] = [
            *(
                [self.convolution] * 5
                + [self.depthwise] * 3
                + [self.dense] * 2
                + [self.elementwise] * 4
                + [self.pool] * 3
            ),
            *(
                self.mean,
                self.activation,
                self.concatenation,
                self.concatenation,
                self.slice,
                self.pad,
                self.reshape,
                self.resize,
            ),
            *(self.requantize, self.residual, self.branches, self.softmax, self.transpose),
        ]
        recent = self.tensors[-3:]
        x = recent[self.draw.int(0, len(recent) - 1)] if self.draw.chance(2) else self.tensors[-1]
        kinds[self.draw.int(0, len(kinds) - 1)](x)

    # -- what is drawn -----------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = (1, self.draw.int(1, 16), self.draw.int(1, 16), self.draw.channels())
            if prod(shape) <= MAX_ELEMENTS:
                return shape

    def quantization(self, scale: float | None = None) -> Quantization:
        """As int8; `tensor` adds 128 in a uint8 network."""
        return self.draw.quantization(scale)

    def spread(self, scale: float) -> Quantization:
        """For values that reach about `scale` * 100."""
        return self.quantization(self.draw.near(scale))

    def tensor(self, shape: tuple[int, ...], q: Quantization) -> Tensor:
        made = self.graph.tensor(shape, self.dtype, q.scale, q.zero_point + 128 * self.unsigned)
        self.tensors.append(made)
        return made

    def input(self, shape: tuple[int, ...], q: Quantization | None = None) -> Tensor:
        q = q or self.quantization()
        made = self.graph.input(shape, self.dtype, q.scale, q.zero_point + 128 * self.unsigned)
        self.tensors.insert(0, made)
        return made

    def of(self, tensor: Tensor) -> Quantization:
        return Quantization(float(tensor.scale[0]), int(tensor.zero_point[0]) - 128 * self.unsigned)

    def emit(
        self,
        kind: str,
        inputs: list[Tensor | None],
        shape: tuple[int, ...],
        q: Quantization,
        **options: Any,
    ) -> Tensor:
        output = self.tensor(shape, q)
        self.graph.operator(kind, inputs, [output], **options)
        sizes = " ".join(
            "x".join(map(str, tensor.shape)) for tensor in inputs if tensor is not None
        )
        self.operators.append(f"{kind} {sizes} -> {'x'.join(map(str, shape))} {options}")
        return output

    def constant(self, values: Any, dtype: Any = np.int32) -> Tensor:
        return self.graph.constant(np.asarray(values, dtype))

    # -- operators: each draws itself on x, and says whether it could ------------------------------

    def weights(
        self, shape: tuple[int, ...], x: Tensor, channels: int, taps: int, axis: int
    ) -> tuple[Tensor, Tensor, Quantization]:
        """Weights, bias, output quantization."""
        draw = self.draw
        per_channel = self.draw.chance(2) and not self.unsigned
        scales = draw.weight_scales(channels if per_channel else 1)
        low = -128 if self.unsigned else -127
        zero_point = draw.int(-128, 127) if self.unsigned and self.draw.chance(2) else 0
        values = draw.rng.integers(low, 127, shape, np.int8, endpoint=True)
        product = np.float32(x.scale[0]) * scales
        q = self.spread(float(np.median(product)) * 75 * 75 * sqrt(taps) / 60)
        limit = np.minimum(np.float64(q.scale) / product * 100, 2**30)
        bias = draw.rng.integers(-limit, limit, channels).astype(np.int32)
        if self.unsigned:
            values = (values.astype(np.int16) + 128).astype(np.uint8)
        w = self.graph.constant(values, scales, zero_point + 128 * self.unsigned, axis=axis)
        return w, self.graph.constant(bias, product, 0), q

    def convolution(
        self, x: Tensor, q: Quantization | None = None, same: bool = False, channels: int = 0
    ) -> bool:
        if len(x.shape) != 4:
            return False
        geometry = self.geometry(x, same)
        divisors = [n for n in range(1, x.shape[3] + 1) if x.shape[3] % n == 0]
        groups = (
            int(self.draw.pick(divisors))
            if self.draw.chance(4) and not self.unsigned and not channels
            else 1
        )
        out = channels or groups * max(1, self.draw.channels() // groups)
        taps = prod(geometry.kernel) * x.shape[3] // groups
        if (
            geometry.empty
            or prod(geometry.output) * out * taps > MAX_MACS
            or prod(geometry.output) * out > MAX_ELEMENTS
        ):
            return False
        w, bias, own = self.weights((out, *geometry.kernel, x.shape[3] // groups), x, out, taps, 0)
        self.emit(
            "CONV_2D",
            [x, w, bias],
            (1, *geometry.output, out),
            q or own,
            **geometry.options,
            **self.fused(),
        )
        return True

    def depthwise(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        geometry = self.geometry(x)
        multiplier = self.draw.pick([1, 1, 1, 2, 3])
        out = x.shape[3] * multiplier
        if geometry.empty or out > 256 or prod(geometry.output) * out > MAX_ELEMENTS:
            return False
        taps = prod(geometry.kernel)
        w, bias, q = self.weights((1, *geometry.kernel, out), x, out, taps, 3)
        options = {**geometry.options, **self.fused(), "depth_multiplier": multiplier}
        self.emit(
            "DEPTHWISE_CONV_2D",
            [x, w] if self.draw.chance(6) else [x, w, bias],
            (1, *geometry.output, out),
            q,
            **options,
        )
        return True

    def geometry(self, x: Tensor, same: bool = False) -> _Geometry:
        draw = self.draw
        kernel = (
            (draw.int(1, 5), draw.int(1, 5))
            if self.draw.chance(2)
            else self.draw.pick([(1, 1), (3, 3), (3, 3), (5, 5), (7, 7)])
        )
        strides = (draw.int(1, 3), draw.int(1, 3)) if self.draw.chance(3) and not same else (1, 1)
        dilation = (
            (draw.int(1, 3), draw.int(1, 3))
            if self.draw.chance(5) and strides == (1, 1)
            else (1, 1)
        )
        return _Geometry(x.shape[1:3], kernel, strides, dilation, same or not self.draw.chance(3))

    def fused(self) -> dict[str, Any]:
        return {"fused_activation_function": self.draw.pick(ACTIVATIONS)}

    def dense(self, x: Tensor) -> bool:
        size = prod(x.shape[1:]) if len(x.shape) == 4 else x.shape[-1]
        out = self.draw.channels()
        if len(x.shape) not in (2, 4) or size * out > MAX_MACS // 4:
            return False
        w, bias, q = self.weights((out, size), x, out, size, 0)
        self.emit(
            "FULLY_CONNECTED",
            [x, w, None] if self.draw.chance(6) else [x, w, bias],
            (1, out),
            q,
            **self.fused(),
        )
        return True

    def elementwise(self, x: Tensor) -> bool:
        kind = self.draw.pick(["ADD", "ADD", "SUB", "MUL"])
        return self.two(kind, x, self.partner(x))

    def residual(self, x: Tensor) -> bool:
        """x + f(x)."""
        return self.convolution(x, same=True, channels=x.shape[-1]) and self.two(
            "ADD", x, self.tensors[-1]
        )

    def partner(self, x: Tensor) -> Tensor:
        """Another tensor of this shape, an input, a value per channel, a constant."""
        others = [tensor for tensor in self.tensors if tensor.shape == x.shape]
        choice = self.draw.int(0, 5)
        if choice < 3:
            return others[self.draw.int(0, len(others) - 1)]
        if choice == 3:
            return self.input(x.shape)
        q = self.quantization()
        shape = self.draw.pick(
            [x.shape, (1,) * (len(x.shape) - 1) + x.shape[-1:], x.shape[-1:], (1,)]
        )
        if choice == 4 and len(shape) == len(x.shape):
            return self.input(shape)
        values = self.draw.rng.integers(-128, 127, shape, np.int8, endpoint=True)
        if self.unsigned:
            values = (values.astype(np.int16) + 128).astype(np.uint8)
        return self.graph.constant(values, q.scale, q.zero_point + 128 * self.unsigned)

    def two(self, kind: str, a: Tensor, b: Tensor) -> bool:
        scale_a, scale_b = float(a.scale[0]), float(b.scale[0])
        q = self.spread(scale_a * scale_b * 75 if kind == "MUL" else max(scale_a, scale_b) * 2)
        inputs = [b, a] if self.draw.chance(3) else [a, b]
        self.emit(kind, inputs, np.broadcast_shapes(a.shape, b.shape), q, **self.fused())
        return True

    def pool(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        kind = self.draw.pick(["AVERAGE_POOL_2D", "MAX_POOL_2D"])
        if self.draw.chance(4):
            geometry = _Geometry(x.shape[1:3], x.shape[1:3], (1, 1), (1, 1), False)
        else:
            geometry = self.geometry(x)
            geometry = _Geometry(
                x.shape[1:3], geometry.kernel, geometry.strides, (1, 1), geometry.same
            )
        if geometry.empty:
            return False
        options = {
            key: value for key, value in geometry.options.items() if not key.startswith("dilation")
        }
        options |= {
            "filter_height": geometry.kernel[0],
            "filter_width": geometry.kernel[1],
            **self.fused(),
        }
        self.emit(kind, [x], (1, *geometry.output, x.shape[3]), self.of(x), **options)
        return True

    def mean(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        axes = self.draw.pick([(1, 2), (1, 2), (1, 2), (3,), (1,), (2,)])
        keep = self.draw.chance(2)
        if not keep and axes != (1, 2):
            return False
        shape = tuple(
            1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes
        )
        q = self.of(x) if self.draw.chance(2) else self.spread(float(x.scale[0]))
        self.emit("MEAN", [x, self.constant(axes)], shape, q, keep_dims=keep)
        return True

    def activation(self, x: Tensor) -> bool:
        q = self.of(x) if self.draw.chance(2) else self.spread(float(x.scale[0]))
        self.emit(self.draw.pick(["RELU", "RELU6", "RELU_N1_TO_1"]), [x], x.shape, q)
        return True

    def requantize(self, x: Tensor) -> bool:
        self.emit("QUANTIZE", [x], x.shape, self.spread(float(x.scale[0])))
        return True

    def softmax(self, x: Tensor) -> bool:
        if x.shape[-1] > 4096:  # LiteRT's sum has 12 bits before the point: the process aborts
            return False
        self.emit("SOFTMAX", [x], x.shape, Quantization(1 / 256, -128), beta=1.0)
        return True

    def branches(self, x: Tensor) -> bool:
        """A concatenation of two or three convolutions of x, all with one quantization."""
        if len(x.shape) != 4:
            return False
        q = self.spread(float(x.scale[0]) * 2)
        before = len(self.operators)
        for _ in range(self.draw.int(2, 3)):
            self.convolution(x, q, same=True)
        count = len(self.operators) - before
        return count > 0 and self.join(self.tensors[len(self.tensors) - count :], 3, q)

    def concatenation(self, x: Tensor) -> bool:
        """Of tensors that are there, along any axis; int8 ones have one quantization, as LiteRT
        demands."""
        axis = self.draw.pick([3, 3, 3, 1, 2]) if len(x.shape) == 4 else len(x.shape) - 1
        q = self.of(x)
        same = [
            t
            for t in self.tensors
            if len(t.shape) == len(x.shape)
            and t.shape[:axis] + t.shape[axis + 1 :] == x.shape[:axis] + x.shape[axis + 1 :]
        ]
        parts = [x] + [self.draw.pick(same) for _ in range(self.draw.int(0, 2))]
        if self.unsigned:
            return self.join(parts, axis, q if self.draw.chance(2) else self.spread(q.scale))
        parts = [part for part in parts if self.of(part) == q]
        if len(parts) == 1:
            parts.append(
                self.input(
                    (
                        *x.shape[:axis],
                        self.draw.channels() if axis == len(x.shape) - 1 else self.draw.int(1, 4),
                        *x.shape[axis + 1 :],
                    ),
                    q,
                )
            )
        return self.join(parts, axis, q)

    def join(self, parts: list[Tensor], axis: int, q: Quantization) -> bool:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        if prod(shape) > 2 * MAX_ELEMENTS:
            return False
        self.emit(
            "CONCATENATION",
            list(parts),
            tuple(shape),
            q,
            axis=axis if self.draw.chance(2) else axis - len(shape),
        )
        return True

    def slice(self, x: Tensor) -> bool:
        """Of pixels or channels; STRIDED_SLICE has steps."""
        axes = (
            self.draw.pick([(1, 2), (len(x.shape) - 1,), tuple(range(1, len(x.shape)))])
            if len(x.shape) == 4
            else (len(x.shape) - 1,)
        )
        begin, end, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        strided = self.draw.chance(2)
        for axis in axes:
            begin[axis] = self.draw.int(0, x.shape[axis] - 1)
            if axis == 3 and self.draw.chance(2):
                begin[axis] -= begin[axis] % 16
            end[axis] = self.draw.int(begin[axis] + 1, x.shape[axis])
            steps[axis] = self.draw.int(1, 2) if strided else 1
        shape = tuple(-(-(e - b) // s) for b, e, s in zip(begin, end, steps, strict=True))
        if strided:
            constants = [self.constant(values) for values in (begin, end, steps)]
            self.emit("STRIDED_SLICE", [x, *constants], shape, self.of(x))
        else:
            self.emit("SLICE", [x, self.constant(begin), self.constant(shape)], shape, self.of(x))
        return True

    def pad(self, x: Tensor) -> bool:
        """Asymmetric; often a convolution without padding follows, as converters write it for
        strides of 2."""
        if len(x.shape) != 4:
            return False
        pads = [
            (0, 0),
            (self.draw.int(0, 3), self.draw.int(0, 3)),
            (self.draw.int(0, 3), self.draw.int(0, 3)),
            (0, 0),
        ]
        if self.draw.chance(6):
            pads[3] = (self.draw.int(0, 3), self.draw.int(0, 3))
        shape = tuple(n + before + after for n, (before, after) in zip(x.shape, pads, strict=True))
        if prod(shape) > MAX_ELEMENTS:
            return False
        y = self.emit("PAD", [x, self.constant(pads)], shape, self.of(x))
        if self.draw.chance(2):
            geometry = _Geometry(
                shape[1:3], (3, 3), self.draw.pick([(1, 1), (2, 2)]), (1, 1), False
            )
            out = self.draw.channels(64)
            if not geometry.empty and prod(geometry.output) * out * 9 * shape[3] <= MAX_MACS:
                w, bias, q = self.weights((out, 3, 3, shape[3]), y, out, 9 * shape[3], 0)
                self.emit(
                    "CONV_2D",
                    [y, w, bias],
                    (1, *geometry.output, out),
                    q,
                    **geometry.options,
                    **self.fused(),
                )
        return True

    def reshape(self, x: Tensor) -> bool:
        _, *rest = x.shape
        choices = [(1, prod(rest))]
        if len(x.shape) == 4:
            choices += [
                (1, rest[0] * rest[1], 1, rest[2]),
                (1, 1, rest[0] * rest[1], rest[2]),
                (1, rest[1], rest[0], rest[2]),
            ]
        else:
            choices += [(1, 1, 1, prod(rest))]
        shape = self.draw.pick(choices)
        self.emit("RESHAPE", [x, self.constant(shape)], shape, self.of(x), new_shape=list(shape))
        return True

    def transpose(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        permutation = self.draw.pick([(0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2)])
        self.emit(
            "TRANSPOSE",
            [x, self.constant(permutation)],
            tuple(x.shape[axis] for axis in permutation),
            self.of(x),
        )
        return True

    def resize(self, x: Tensor) -> bool:
        """By integer factors, nearest or bilinear, with any of the three rules of where samples
        lie."""
        if len(x.shape) != 4:
            return False
        factors = (self.draw.int(1, 3), self.draw.int(1, 3))
        size = (x.shape[1] * factors[0], x.shape[2] * factors[1])
        if prod(size) * x.shape[3] > MAX_ELEMENTS:
            return False
        align_corners, half_pixel_centers = self.draw.pick(
            [(False, False), (True, False), (False, True)]
        )
        kind = self.draw.pick(["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
        flags = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
        self.emit(kind, [x, self.constant(size)], (1, *size, x.shape[3]), self.of(x), **flags)
        return True


@dataclass(frozen=True)
class _Geometry:
    """A window over an image, in TFLite's terms."""

    image: tuple[int, ...]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    same: bool

    @property
    def output(self) -> tuple[int, int]:
        pads = (
            same_padding(self.image, self.kernel, self.strides, self.dilation)
            if self.same
            else (0, 0, 0, 0)
        )
        first, second = (
            (self.image[a] + pads[a] + pads[a + 2] - self.dilation[a] * (self.kernel[a] - 1) - 1)
            // self.strides[a]
            + 1
            for a in (0, 1)
        )
        return first, second

    @property
    def empty(self) -> bool:
        return min(self.output) < 1

    @property
    def options(self) -> dict[str, int]:
        return {
            "padding": Padding.SAME if self.same else Padding.VALID,
            "stride_h": self.strides[0],
            "stride_w": self.strides[1],
            "dilation_h_factor": self.dilation[0],
            "dilation_w_factor": self.dilation[1],
        }
