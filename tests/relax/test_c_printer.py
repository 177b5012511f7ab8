# SPDX-License-Identifier: Apache-2.0
"""relax/c_printer.py: what TVM legalizes prints as C that computes what TVM's own code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.c_operator import c_operator
from loadstone.errors import UnsupportedError
from loadstone.numerics import Array
from loadstone.relax.compat import constant, relax
from loadstone.relax.saved import run_module
from tests.relax.c_steps import call

op = relax.op
Maker = Callable[..., Any]
F, I32, I8 = ((2, 6, 8), "float32"), ((2, 6, 8), "int32"), ((1, 8, 8, 4), "int8")
N = ((1, 8, 8, 4), "float32")
RNG = np.random.default_rng(0)


def real(*values: float) -> Any:
    return constant(np.array(values if len(values) > 1 else values[0], np.float32))


def byte(value: int) -> Any:
    return constant(np.int8(value))


def module(make: Maker, *tensors: tuple[tuple[int, ...], str]) -> Any:
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{k}", relax.TensorType(shape, kind)) for k, (shape, kind) in enumerate(tensors)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            output = builder.emit_output(builder.normalize(make(*parameters)))
        builder.emit_func_output(output)
    return builder.get()


UNARY = (
    *("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "sin", "cos", "erf", "floor", "ceil"),
    *("round", "abs", "negative", "sign", "square", "trunc"),
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
NEURAL = ("gelu", "silu", "relu", "softmax", "log_softmax", "leakyrelu", "softplus")
CASES: dict[str, tuple[Maker, list[tuple[tuple[int, ...], str]]]] = {
    **{name: (getattr(op, name), [F]) for name in UNARY},
    **{name: (getattr(op, name), [F, F]) for name in BINARY},
    **{name: (getattr(op.nn, name), [F]) for name in NEURAL},
    "floor_divide": (op.floor_divide, [I32, I32]),
    "mod": (op.mod, [I32, I32]),
    "dequantize": (lambda x: op.dequantize(x, real(0.0135), byte(-128), out_dtype="float32"), [I8]),
    "quantize": (lambda x: op.quantize(x, real(0.0135), byte(-128), out_dtype="int8"), [N]),
    "conv2d": (
        lambda x, w: op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="OHWI"),
        [N, ((5, 3, 3, 4), "float32")],
    ),
    "resize": (
        lambda x: op.image.resize2d(
            x, (13, 17), layout="NHWC", method="cubic", coordinate_transformation_mode="half_pixel"
        ),
        [N],
    ),
    "matmul": (op.matmul, [((3, 4, 7), "float32"), ((3, 7, 3), "float32")]),
    "layer_norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
        [F, ((8,), "float32"), ((8,), "float32")],
    ),
    "max_pool": (lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1, 1, 1), layout="NHWC"), [N]),
    "argmax": (lambda x: op.argmax(x, axis=-1), [F]),
    "cumsum": (lambda x: op.cumsum(x, axis=1), [F]),
    "where": (lambda x, y: op.where(op.greater(x, y), x, y), [F, F]),
    "slice": (lambda x: op.strided_slice(x, [1], [1], [5], [2]), [F]),
    "split": (lambda x: op.split(x, 2, axis=1)[1], [F]),
    "shift": (lambda x: op.right_shift(x, constant(np.int32(3))), [I32]),
    "identity": (lambda x: x, [F]),
}
POSITIVE = ("log", "sqrt", "rsqrt", "power")


def draw(shape: tuple[int, ...], kind: str, positive: bool) -> Array:
    if kind.startswith("int"):
        values = RNG.integers(-100, 100, shape)
        return np.where(values == 0, 1, values).astype(kind)
    values = RNG.normal(0, 2, shape)
    return (np.abs(values) + 0.1 if positive else values).astype(kind)


def test_every_operator_computes_what_tvm_does() -> None:
    """All in one module: TVM and the C compiler are called once."""
    tensors = [tensor for _, inputs in CASES.values() for tensor in inputs]

    def together(*parameters: Any) -> Any:
        left = list(parameters)
        return relax.Tuple(
            [make(*(left.pop(0) for _ in inputs)) for make, inputs in CASES.values()]
        )

    made = module(together, *tensors)
    inputs = [
        draw(shape, kind, name in POSITIVE)
        for name, (_, entries) in CASES.items()
        for shape, kind in entries
    ]
    wanted = run_module(made, inputs)
    for name, want, got in zip(CASES, wanted, call(c_operator(made), inputs, wanted), strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(got, want, err_msg=name)


def test_no_digit_of_a_constant_is_lost() -> None:
    made = module(lambda x: op.multiply(x, real(0.1)), ((1,), "float32"))
    (got,) = call(c_operator(made), [np.ones(1, np.float32)], [np.empty(1, np.float32)])
    assert got[0] == np.float32(0.1)


def test_a_node_without_a_form_in_c_is_refused_by_name() -> None:
    half = module(lambda x: op.add(x, x), (F[0], "float16"))
    with pytest.raises(UnsupportedError, match="Add of float16"):
        c_operator(half)


def test_halves_are_converted_as_numpy_does() -> None:
    """Every half; and every float32 around one, and between two of them."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    widen = module(lambda x: op.astype(x, "float32"), ((1 << 16,), "float16"))
    (wide,) = call(c_operator(widen), [halves], [np.empty(1 << 16, np.float32)])
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    finite = np.sort(wide[np.isfinite(wide)])
    between = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    values = np.concatenate(
        [
            *(np.nextafter(between, side) for side in np.float32([np.inf, -np.inf])),
            *(wide, between, np.float32([65519.9, 65520, -65520, 1e-30, -1e-30, 2.0**-25])),
        ]
    )
    narrow = module(lambda x: op.astype(x, "float16"), ((len(values),), "float32"))
    (got,) = call(c_operator(narrow), [values], [np.empty(len(values), np.float16)])
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    np.testing.assert_array_equal(got[~np.isnan(want)].view("u2"), want[~np.isnan(want)].view("u2"))
    assert np.isnan(got[np.isnan(want)]).all()
