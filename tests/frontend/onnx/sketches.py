# SPDX-License-Identifier: Apache-2.0
"""How a random node of each ONNX operator is drawn: shapes, types, attributes, opsets.

In:   a Sketch.
Out:  ALL and its families: by operator, what fills a Sketch.
Next: sweep.py makes models of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.frontend.onnx.moving_sketches import MOVEMENT
from tests.frontend.onnx.normalization_sketches import NORMALIZATION, SAMPLING
from tests.frontend.onnx.sweep import FLOATS, INTEGERS, Sketch

__all__ = [
    "ALL",
    "ARITHMETIC",
    "ELEMENTWISE",
    "MOVEMENT",
    "REDUCTION",
    "SELECTION",
    "SHAPES",
]

Fill = Callable[[Sketch], None]


def _pair(*kinds: str, opsets: tuple[int, ...] = (7, 13, 17), nonzero: bool = False) -> Fill:
    def fill(s: Sketch) -> None:
        shape, kind = s.shape(0), s.one(*kinds)
        s.opset = s.one(*opsets)
        shapes = [shape, s.broadcast(shape)]
        first, second = shapes if s.rng.integers(2) else shapes[::-1]
        s.input(s.values(first, kind))
        y = s.values(second, kind)
        s.input(np.where(y == 0, np.ones((), kind), y) if nonzero else y)

    return fill


def _old_pair(s: Sketch) -> None:
    """Stretched by attributes, as up to opset 6."""
    s.opset = 6
    shape = s.shape(2, 4)
    s.input(s.values(shape))
    axis = s.number(0, len(shape) - 1)
    end = s.number(axis + 1, len(shape))
    s.attributes |= {"broadcast": 1, "axis": axis}
    s.input(s.values(shape[axis:end]))


def _add(s: Sketch) -> None:
    (_old_pair if s.rng.integers(4) == 0 else _pair("float32", "int32", "int64"))(s)


def _pow(s: Sketch) -> None:
    s.opset = s.one(12, 13, 15)
    kind, other = s.one("float32", "float64", "int32", "int64"), s.one("float32", "int32", "int64")
    shape = s.shape()
    whole = s.rng.integers(1, 6, shape).astype(kind)
    s.input(whole)
    s.input(s.rng.integers(0, 5, s.broadcast(shape)).astype(other))


def _mod(s: Sketch) -> None:
    kind = s.one("float32", "float64", *INTEGERS)
    shape = s.shape()
    s.input(s.values(shape, kind, 5.0))
    y = s.values(s.broadcast(shape), kind, 3.0)
    s.input(np.where(y == 0, np.ones((), kind), y))
    s.attributes["fmod"] = 1 if kind.startswith("float") else s.number(0, 1)


def _shift(s: Sketch) -> None:
    kind, shape = s.one("uint8", "uint16", "uint32", "uint64"), s.shape()
    s.input(s.values(shape, kind))
    s.input(s.rng.integers(0, 8, s.broadcast(shape)).astype(kind))
    s.attributes["direction"] = s.one("LEFT", "RIGHT")


def _prelu(s: Sketch) -> None:
    s.opset = s.one(9, 16, 17)
    shape = s.shape(1)
    s.input(s.values(shape))
    s.input(s.values(s.broadcast(shape)))


def _many(*kinds: str) -> Fill:
    def fill(s: Sketch) -> None:
        shape, kind = s.shape(), s.one(*kinds)
        s.opset = s.one(8, 13, 17)
        s.input(s.values(shape, kind))
        for _ in range(s.number(0, 3)):
            s.input(s.values(s.broadcast(shape), kind))

    return fill


ARITHMETIC: Mapping[str, Fill] = {
    "Add": _add,
    "Sub": _add,
    "Mul": _add,
    "Div": _pair("float32", "float64", "int32", "int64", nonzero=True),
    "Pow": _pow,
    "Mod": _mod,
    "BitShift": _shift,
    "PRelu": _prelu,
    "Max": _many("float32", "float64", "int32", "int64"),
    "Min": _many("float32", "float64", "int32", "int64"),
    "Sum": _many("float32"),
    "Mean": _many("float32"),
    **dict.fromkeys(("And", "Or", "Xor"), _pair("bool")),
    **dict.fromkeys(
        ("Equal", "Greater", "Less"), _pair("float32", "int32", "int64", opsets=(9, 13, 17))
    ),
    **dict.fromkeys(
        ("GreaterOrEqual", "LessOrEqual"), _pair("float32", "int32", "int64", opsets=(12, 16))
    ),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _pair(*INTEGERS, opsets=(18,))),
}


def _one(*kinds: str, **ranges: tuple[float, float]) -> Fill:
    """One input; attributes that are real numbers of these ranges."""

    def fill(s: Sketch) -> None:
        s.input(s.values(s.shape(0), s.one(*kinds)))
        s.maybe(**{name: float(s.rng.uniform(*ends)) for name, ends in ranges.items()})

    return fill


def _near_one(s: Sketch) -> None:
    s.input(s.rng.uniform(-0.95, 0.95, s.shape()).astype("float32"))


def _above_one(s: Sketch) -> None:
    s.input(s.rng.uniform(1.05, 4, s.shape()).astype("float32"))


def _clip(s: Sketch) -> None:
    kind = s.one("float32", "float64", "int8", "uint8", "int32", "int64")
    s.opset = s.one(6, 11, 12, 13)
    s.input(s.values(s.shape(), kind if s.opset > 11 else "float32", 5.0))
    low, high = sorted(
        s.values((2,), "float32", 3.0).tolist(), reverse=bool(s.rng.integers(6) == 0)
    )
    if s.opset < 11:
        s.maybe(min=low, max=high)
        return
    for bound in (low, high):
        if s.rng.integers(4):
            s.constant(bound, s.inputs[0][1].dtype.name)
        else:
            s.nothing()


def _infinite(s: Sketch) -> None:
    x = s.values(s.shape())
    s.opset = 10
    s.input(np.where(x > 1, np.inf, np.where(x < -1, -np.inf, x)).astype("float32"))
    s.maybe(detect_negative=s.number(0, 1), detect_positive=s.number(0, 1))


def _cumsum(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(11, 14)
    s.input(s.values(shape, s.one("float32", "float64", "int32", "int64")))
    s.constant(s.axis(len(shape)), s.one("int32", "int64"))
    s.maybe(exclusive=s.number(0, 1), reverse=s.number(0, 1))


def _dropout(s: Sketch) -> None:
    s.opset = s.one(10, 12, 13)
    s.input(s.values(s.shape()))
    s.outputs = s.number(1, 2)
    if s.opset < 12:
        s.maybe(ratio=0.3)
    elif s.rng.integers(2):
        s.constant(0.3, "float32")


def _cast(s: Sketch) -> None:
    kinds = (*FLOATS, "float16", *INTEGERS, "bool")
    s.opset = s.one(9, 13, 17)
    kind = s.one(*kinds)
    x = s.values(s.shape(), kind, 4.0)
    to = s.one(*kinds)
    s.input(np.abs(x).astype(kind) if to.startswith("uint") else x)
    import onnx

    s.attributes["to"] = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))


ELEMENTWISE: Mapping[str, Fill] = {
    **dict.fromkeys(
        (
            *("Asinh", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish"),
            *("Identity", "IsNaN", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign"),
            *("Sin", "Sinh", "Softplus", "Softsign", "Tan", "Tanh"),
        ),
        _one("float32"),
    ),
    **dict.fromkeys(("Acos", "Asin", "Atanh"), _near_one),
    **dict.fromkeys(("Acosh", "Log", "Sqrt"), _above_one),
    "Abs": _one("float32", "float64", "int8", "int32", "int64"),
    "Not": _one("bool"),
    "Elu": _one("float32", alpha=(0.2, 2)),
    "Celu": _one("float32", alpha=(0.2, 2)),
    "LeakyRelu": _one("float32", alpha=(-0.5, 0.9)),
    "ThresholdedRelu": _one("float32", alpha=(-1, 1)),
    "Selu": _one("float32", alpha=(0.5, 2), gamma=(0.5, 2)),
    "HardSigmoid": _one("float32", alpha=(0.1, 0.9), beta=(0.1, 0.9)),
    "Shrink": _one("float32", bias=(-1, 1), lambd=(0.1, 2)),
    "Clip": _clip,
    "IsInf": _infinite,
    "CumSum": _cumsum,
    "Dropout": _dropout,
    "Cast": _cast,
}


def _reduce(*kinds: str) -> Fill:
    def fill(s: Sketch) -> None:
        shape = s.shape()
        x = s.values(shape, s.one(*kinds))
        s.opset = s.one(9, 11, 13, 18)
        s.input(x)
        s.maybe(keepdims=s.number(0, 1))
        count = s.number(0, len(shape))
        axes = [int(a) for a in s.rng.permutation(len(shape))[:count]]
        axes = [a - len(shape) if s.opset > 10 and s.rng.integers(2) else a for a in axes]
        if s.opset < 18:
            s.attributes |= {"axes": axes} if axes else {}
            return
        if axes or s.rng.integers(2):
            s.constant(axes)
        s.maybe(noop_with_empty_axes=s.number(0, 1))

    return fill


def _positive(s: Sketch) -> None:
    _reduce("float32")(s)
    name, value, constant = s.inputs[0]
    s.inputs[0] = (name, np.abs(value) + np.float32(0.1), constant)


REDUCTION: Mapping[str, Fill] = {
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceSumSquare"),
        _reduce("float32", "int32"),
    ),
    **dict.fromkeys(("ReduceL2", "ReduceLogSumExp"), _reduce("float32")),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _reduce("float32", "int32", "int8", "uint8")),
    "ReduceLogSum": _positive,
}


def _arg(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(11, 12, 13)
    s.input(s.rng.integers(-2, 3, shape).astype("float32"))
    s.maybe(axis=s.axis(len(shape)), keepdims=s.number(0, 1))
    if s.opset > 11:
        s.maybe(select_last_index=s.number(0, 1))


def _top_k(s: Sketch) -> None:
    shape = s.shape()
    axis = s.axis(len(shape))
    s.opset = s.one(10, 11, 17)
    s.outputs = 2
    s.input(s.rng.permutation(int(np.prod(shape))).reshape(shape).astype("float32"))
    s.constant([s.number(1, shape[axis])])
    s.attributes["axis"] = axis
    if s.opset > 10:
        s.maybe(largest=s.number(0, 1))


def _where(s: Sketch) -> None:
    shape, kind = s.shape(), s.one("float32", "int32", "int64", "uint8")
    s.input(s.values(s.broadcast(shape), "bool"))
    s.input(s.values(shape, kind))
    s.input(s.values(s.broadcast(shape), kind))


SELECTION: Mapping[str, Fill] = {"ArgMax": _arg, "ArgMin": _arg, "TopK": _top_k, "Where": _where}


def _shape_of(s: Sketch) -> None:
    shape = s.shape(1)
    s.opset = s.one(13, 15, 17)
    s.input(s.values(shape))
    if s.opset > 13:
        s.maybe(start=s.number(-4, 4), end=s.number(-4, 4))


def _size(s: Sketch) -> None:
    s.input(s.values(s.shape()))


def _eye(s: Sketch) -> None:
    s.opset = 9
    s.input(s.values((s.number(1, 5), s.number(1, 5)), s.one("float32", "int32")))
    s.maybe(k=s.number(-3, 3), dtype=s.one(1, 6, 7))


def _one_hot(s: Sketch) -> None:
    shape, depth = s.shape(1, 3), s.number(1, 6)
    s.opset = s.one(9, 11)
    s.input(s.rng.integers(-depth if s.opset > 9 else 0, depth + 1, shape).astype("int64"))
    s.constant(depth if s.rng.integers(2) else [depth])
    s.input(s.values((2,)))
    s.maybe(axis=s.axis(len(shape) + 1))


def _constant_of_shape(s: Sketch) -> None:
    import onnx

    s.opset = 9
    s.constant(s.shape())
    value = s.values((1,), s.one("float32", "int32", "int64", "uint8", "bool"))
    s.maybe(value=onnx.numpy_helper.from_array(value))


SHAPES: Mapping[str, Fill] = {
    "Shape": _shape_of,
    "Size": _size,
    "EyeLike": _eye,
    "OneHot": _one_hot,
    "ConstantOfShape": _constant_of_shape,
}


ALL: Mapping[str, Fill] = {
    **ARITHMETIC,
    **ELEMENTWISE,
    **MOVEMENT,
    **NORMALIZATION,
    **REDUCTION,
    **SAMPLING,
    **SELECTION,
    **SHAPES,
}
