# SPDX-License-Identifier: Apache-2.0
"""Random operators on real numbers, and a device of bfloat16 that computes one.

In:   a generator of random numbers; a HwConfig.
Out:  `random_operator`; `on_device`, through memory plan, artifact, C runtime and simulator;
      `defined`, what the operator is by graph/kernels/real.py.
Next: vta/operators/test_real*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.artifact.format import Artifact
from loadstone.backend.target import resolve
from loadstone.graph.bfloat16 import rounded
from loadstone.graph.kernels import real
from loadstone.numerics import Rounding
from loadstone.partition.eager import Partition, divide
from loadstone.partition.lowering import lower_partition
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import HwConfig

__all__ = [
    "KINDS",
    "artifact_of",
    "cancelling",
    "defined",
    "on_device",
    "product_bound",
    "random_inputs",
    "random_operator",
    "sum_bound",
]

Floats = NDArray[np.float32]
CLAMPS = [(-np.inf, np.inf), (0.0, np.inf), (0.0, 6.0), (-0.3, 1.7)]


def _tensor(name: str, shape: Sequence[int]) -> g.Tensor:
    return g.Tensor(name, tuple(shape), "float32")


def _clamp(rng: np.random.Generator) -> dict[str, float]:
    low, high = CLAMPS[rng.integers(len(CLAMPS))]
    return {"low": low, "high": high}


def _sliding(rng: np.random.Generator, channels: int) -> dict[str, object]:
    """Kernel, strides, padding, and input and output of them."""
    kernel, strides = ([int(rng.integers(1, n)) for _ in range(2)] for n in (4, 3))
    size = [int(rng.integers(k, 12)) for k in kernel]
    padding = [int(rng.integers(0, kernel[axis % 2])) for axis in range(4)]
    out = [(size[a] + padding[a] + padding[a + 2] - kernel[a]) // strides[a] + 1 for a in (0, 1)]
    return {
        "inputs": (_tensor("x", (1, *size, channels)),),
        "outputs": (_tensor("y", (1, *out, channels)),),
        "kernel": tuple(kernel),
        "strides": tuple(strides),
        "padding": tuple(padding),
    }


def cancelling(op: g.RealWeighted, x: Floats) -> tuple[g.RealWeighted, Floats]:
    """The operator, and inputs, of which neighbouring channels cancel but for a few small ones:
    what is left is rounding, which shows in which order was added. (Of ordinary sums the last
    rounding to 8 bits hides it.)"""
    weights, x = op.weights.copy(), x.copy()
    pairs = weights.shape[-1] // 2
    large = np.arange(pairs) % 4 != 3
    first, second = weights[..., 0 : 2 * pairs : 2], weights[..., 1 : 2 * pairs : 2]
    second[..., large] = -first[..., large]
    small = rounded(np.float32(2.0**-17))
    first[..., ~large], second[..., ~large] = (
        first[..., ~large] * small,
        second[..., ~large] * small,
    )
    by_group = x.reshape(*x.shape[:-1], -1, weights.shape[-1])
    by_group[..., 1 : 2 * pairs : 2] = by_group[..., 0 : 2 * pairs : 2]
    return replace(op, weights=weights, bias=op.bias * small, low=-np.inf, high=np.inf), x


def _conv2d(rng: np.random.Generator) -> g.Operator:
    groups = int(rng.choice([1, 1, 1, 2, 24]))
    per_group, outputs = (1, int(rng.integers(1, 3))) if groups == 24 else rng.integers(1, 40, 2)
    fields = _sliding(rng, groups * int(per_group))
    kernel = fields.pop("kernel")
    (output,) = fields["outputs"]  # type: ignore[misc]
    channels = groups * int(outputs)
    weights = rounded(rng.normal(size=(channels, *kernel, int(per_group))))  # type: ignore[misc]
    fields["outputs"] = (replace(output, shape=(*output.shape[:3], channels)),)  # type: ignore[has-type]
    bias = rng.normal(size=channels).astype(np.float32) * rng.integers(0, 2)
    return g.RealConv2D(
        name="y",
        weights=weights,
        bias=bias.astype(np.float32),
        dilation=(1, 1),
        groups=groups,
        **_clamp(rng),
        **fields,  # type: ignore[arg-type]
    )


def _dense(rng: np.random.Generator) -> g.Operator:
    inputs, outputs = rng.integers(1, 200, 2).tolist()
    return g.RealDense(
        name="y",
        inputs=(_tensor("x", (1, inputs)),),
        outputs=(_tensor("y", (1, outputs)),),
        weights=rounded(rng.normal(size=(outputs, inputs))),
        bias=rng.normal(size=outputs).astype(np.float32),
        **_clamp(rng),
    )


def _matmul(rng: np.random.Generator) -> g.Operator:
    leading = rng.integers(1, 4, int(rng.integers(1, 3))).tolist()
    rows, columns, depth = rng.integers(1, 40, 3).tolist()
    sides = {"a": (rows, depth), "b": (columns, depth), "y": (rows, columns)}
    a, b, y = (_tensor(name, (1, *leading, *side)) for name, side in sides.items())
    return g.RealMatMul(name="y", inputs=(a, b), outputs=(y,), **_clamp(rng))


def _image(rng: np.random.Generator) -> tuple[int, ...]:
    return (1, *rng.integers(1, 9, 2).tolist(), int(rng.integers(1, 40)))


def _binary(rng: np.random.Generator) -> g.Operator:
    shape = _image(rng)
    other = shape if rng.integers(2) else (1, 1, 1, shape[-1])
    shapes = [shape, other][:: rng.choice([1, -1])]
    return g.RealBinary(
        name="y",
        inputs=(_tensor("a", shapes[0]), _tensor("b", shapes[1])),
        outputs=(_tensor("y", shape),),
        function=str(rng.choice(["add", "sub", "mul"])),  # type: ignore[arg-type]
        **_clamp(rng),
    )


def _clamped(rng: np.random.Generator) -> g.Operator:
    shape = _image(rng)
    ends = {"inputs": (_tensor("x", shape),), "outputs": (_tensor("y", shape),)}
    return g.RealClamp(name="y", **ends, low=-0.1, high=1.3)


def _pool2d(rng: np.random.Generator) -> g.Operator:
    return g.RealPool2D(
        name="y",
        function=str(rng.choice(["max", "average"])),  # type: ignore[arg-type]
        count_include_pad=bool(rng.integers(2)),
        **_sliding(rng, int(rng.integers(1, 40))),  # type: ignore[arg-type]
    )


def _mean(rng: np.random.Generator) -> g.Operator:
    shape = _image(rng)
    out = (1, 1, 1, shape[-1]) if rng.integers(2) else (1, shape[-1])
    ends = {"inputs": (_tensor("x", shape),), "outputs": (_tensor("y", out),)}
    return g.RealMean(name="y", **ends, axes=(1, 2))


def _concatenate(rng: np.random.Generator) -> g.Operator:
    shape, widths = _image(rng)[:3], rng.integers(1, 40, int(rng.integers(2, 4))).tolist()
    return g.Concatenate(
        name="y",
        inputs=tuple(_tensor(f"x{k}", (*shape, width)) for k, width in enumerate(widths)),
        outputs=(_tensor("y", (*shape, sum(widths))),),
        axis=3,
        low=-128,
        high=127,
        rounding=Rounding.FLOAT32,
    )


KINDS: Mapping[str, Callable[[np.random.Generator], g.Operator]] = {
    "conv2d": _conv2d,
    "dense": _dense,
    "matmul": _matmul,
    "binary": _binary,
    "clamp": _clamped,
    "pool2d": _pool2d,
    "mean": _mean,
    "concatenate": _concatenate,
}


def random_operator(kind: str, rng: np.random.Generator) -> g.Operator:
    """One for a single sample."""
    return KINDS[kind](rng)


def random_inputs(op: g.Operator, samples: int, rng: np.random.Generator) -> list[Floats]:
    """(samples, ...) each: float32 that a device has yet to round."""
    return [
        (rng.normal(size=(samples, *tensor.shape)) * 10.0 ** rng.integers(-2, 3)).astype(np.float32)
        for tensor in op.inputs
    ]


def defined(op: g.Operator, inputs: Sequence[Floats], block: int) -> Floats:
    """What it computes on one sample, for blocks of so many lanes."""
    match op:
        case g.RealConv2D():
            return real.conv2d(op, inputs[0], block)
        case g.RealDense():
            return real.dense(op, inputs[0])
        case g.RealMatMul():
            return real.matmul(op, inputs[0], inputs[1])
        case g.RealBinary():
            return real.binary(op, inputs[0], inputs[1])
        case g.RealClamp():
            return real.clamp(op, inputs[0])
        case g.RealPool2D():
            return real.pool2d(op, inputs[0])
        case g.RealMean():
            return real.mean(op, inputs[0])
    return np.concatenate([rounded(x) for x in inputs], axis=3)


def artifact_of(op: g.Operator, config: HwConfig) -> Artifact:
    """The operator alone, compiled."""
    graph = g.Graph(name="one", inputs=op.inputs, outputs=op.outputs, operators=(op,), constants={})
    target = resolve(config)
    backend = target.backends[0]
    graph, segments = divide(graph, {op.name: backend.name}, [backend.name])
    return lower_partition(Partition(None, graph, (), segments), target).deployment.artifact


def on_device(op: g.Operator, inputs: Sequence[Floats], config: HwConfig) -> Floats:
    """(samples, ...), by the C runtime on the simulator."""
    artifact = artifact_of(op, config)
    with OpenedDevice("sim", "", config, timing=False) as opened, opened.load(artifact) as session:
        return np.asarray(session.run(list(inputs))[0])


def _convolved(
    op: g.RealConv2D, x: NDArray[np.float64], w: NDArray[np.float64]
) -> NDArray[np.float64]:
    """In float64, tap by tap."""
    top, left, bottom, right = op.padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    _, height, width, _ = op.output.shape
    out = np.zeros((*op.output.shape[:3], op.groups, w.shape[0] // op.groups))
    by_group = w.reshape(op.groups, -1, *w.shape[1:])
    for ky, kx in np.ndindex(*w.shape[1:3]):
        rows = slice(ky * op.dilation[0], None, op.strides[0])
        columns = slice(kx * op.dilation[1], None, op.strides[1])
        pixels = padded[:, rows, columns][:, :height, :width]
        pixels = pixels.reshape(*pixels.shape[:3], op.groups, -1)
        out += np.einsum("nhwgc,goc->nhwgo", pixels, by_group[:, :, ky, kx])
    return out.reshape(op.output.shape)


def product_bound(x: Floats, y: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """As sum_bound, of a product of two activations, y by its rows."""
    a, b = rounded(x).astype(np.float64), np.swapaxes(rounded(y).astype(np.float64), -1, -2)
    slack = x.shape[-1] * 2.0**-24 / (1 - x.shape[-1] * 2.0**-24)
    return a @ b, slack * (np.abs(a) @ np.abs(b))


def sum_bound(op: g.RealWeighted, x: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(exact sums with the bias, how far any order of adding in float32 may be from them): n terms
    and a bias are n roundings of 2^-24 each of the sum of magnitudes. Before the clamp."""
    near, weights = rounded(x).astype(np.float64), op.weights.astype(np.float64)

    def sums(x: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
        if isinstance(op, g.RealDense):
            return np.asarray(x @ w.T)
        assert isinstance(op, g.RealConv2D)
        return _convolved(op, x, w)

    terms = op.weights[0].size + 1
    slack = terms * 2.0**-24 / (1 - terms * 2.0**-24)
    return sums(near, weights) + op.bias, slack * (
        sums(np.abs(near), np.abs(weights)) + np.abs(op.bias)
    )
