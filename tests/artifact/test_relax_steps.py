# SPDX-License-Identifier: Apache-2.0
"""relax_steps.py: functions of Relax as steps of the runtime, against PyTorch and against the C
that they would be otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.artifact.c_operator import c_operator
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host import is_built_in
from loadstone.artifact.host_step import EXTERNAL_C, HostOpcode
from loadstone.relax.compat import constant, constant_int64, relax
from loadstone.relax.saved import run_module
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.poisoned import unwritten
from tests.relax.c_steps import call
from tests.relax.test_c_printer import module

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
op = relax.op
Array = NDArray[Any]
CONFIG = load_config("vtaq-1x16x16")
RNG = np.random.default_rng(7)
Shapes = Sequence[tuple[Sequence[int], str]]


def host(make: Callable[..., Any], inputs: Shapes, outputs: Shapes, samples: int = 1) -> g.Host:
    """An operator whose tensors hold so many samples."""

    def tensors(kind: str, shapes: Shapes) -> tuple[g.Tensor, ...]:
        return tuple(
            g.Tensor(f"{kind}{k}", (samples * shape[0], *shape[1:]), dtype)
            for k, (shape, dtype) in enumerate(shapes)
        )

    made = module(make, *inputs)
    return g.Host(
        name="o",
        inputs=tensors("in", inputs),
        outputs=tensors("out", outputs),
        function=made,
        operators=(),
    )


def deployed(operator: g.Host) -> Artifact:
    graph = g.Graph(
        name="one", inputs=operator.inputs, outputs=operator.outputs, operators=(operator,)
    )
    return deploy(graph, graph.operators, CONFIG).artifact


def computed(operator: g.Host, inputs: Sequence[Array]) -> list[Array]:
    """By the runtime alone: there is no step of C."""
    artifact = deployed(operator)
    found = [step for step in artifact.steps if isinstance(step, HostStep)]
    assert HostOpcode.EXTERNAL not in {step.opcode for step in found}
    assert unwritten(artifact, CONFIG) == {}
    with OpenedDevice("sim", "", CONFIG) as device, device.load(artifact) as session:
        found = session.run([x[None] for x in inputs], allow_nan=True)
    return [array[0] for array in found]


def as_c(operator: g.Host, inputs: Sequence[Array], samples: int = 1) -> list[Array]:
    """By the step in C that it would be."""
    wanted = [np.empty(t.shape, t.dtype) for t in operator.outputs]
    found = call(c_operator(operator.function, samples), list(inputs), wanted)
    return [np.asarray(y) for y in found]


def normal(*shape: int, scale: float = 1.0) -> Array:
    return RNG.normal(0, scale, shape).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
@pytest.mark.parametrize("scale", [0.1, 3.0, 60.0])
def test_softmax_is_pytorchs_along_every_axis(axis: int, scale: float) -> None:
    x = normal(2, 7, 5, scale=scale)
    shapes = [((2, 7, 5), "float32")]
    operator = host(lambda x: op.nn.softmax(x, axis), shapes, shapes)
    (y,) = computed(operator, [x])
    shifted = x - x.max(axis, keepdims=True)  # rounded, as all compute it
    wanted = torch.softmax(torch.from_numpy(shifted.astype(np.float64)), axis).numpy()
    np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=2e-38)
    np.testing.assert_allclose(y, as_c(operator, [x])[0], rtol=1e-6, atol=2e-38)


def test_what_is_no_number_makes_its_row_none_and_no_other() -> None:
    """As PyTorch's and ONNX Runtime's."""
    x = normal(6, 4)
    x[0, 2] = x[1, 0] = x[2, 3] = np.nan
    x[3, 1], x[4, :], x[5, 0] = np.inf, -np.inf, -np.inf
    shapes = [((6, 4), "float32")]
    (y,) = computed(host(op.nn.softmax, shapes, shapes), [x])
    wanted = torch.softmax(torch.from_numpy(x), -1).numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_allclose(y[5], wanted[5], rtol=1e-6)


def test_shapes_alone_are_no_steps_but_for_what_must_be_elsewhere() -> None:
    x = normal(1, 6, 4)
    shapes = [((1, 6, 4), "float32")]
    operator = host(
        lambda x: op.reshape(op.nn.softmax(op.reshape(x, (1, 3, 8))), (24,)),
        shapes,
        [((24,), "float32")],
    )
    steps = [step for step in deployed(operator).steps if isinstance(step, HostStep)]
    assert [step.opcode for step in steps] == [HostOpcode.SOFTMAX_FLOAT32]
    (y,) = computed(operator, [x])
    np.testing.assert_allclose(y.reshape(3, 8).sum(axis=1), 1, rtol=1e-6)
    same = host(lambda x: op.reshape(x, (4, 6)), shapes, [((4, 6), "float32")])
    np.testing.assert_array_equal(computed(same, [x])[0], x.reshape(4, 6))


def test_moves_are_copies() -> None:
    """Transposed, and joined with a constant and with a part that is transposed."""
    table = normal(1, 3, 2)
    shapes = [((1, 2, 3), "float32"), ((1, 3, 4), "float32")]

    def make(x: Any, y: Any) -> Any:
        turned = op.permute_dims(x, [0, 2, 1])
        return relax.Tuple([op.concat([turned, y, constant(table), turned], 2), turned])

    operator = host(make, shapes, [((1, 3, 10), "float32"), ((1, 3, 2), "float32")])
    x, y = normal(1, 2, 3), normal(1, 3, 4)
    turned = x.transpose(0, 2, 1)
    joined, back = computed(operator, [x, y])
    np.testing.assert_array_equal(joined, np.concatenate([turned, y, table, turned], 2))
    np.testing.assert_array_equal(back, turned)


@pytest.mark.parametrize("samples", [2, 3])
def test_samples_stand_one_behind_the_other(samples: int) -> None:
    """As in the C that it would be."""
    table = normal(1, 4, 2)
    shapes = [((1, 2, 4), "float32")]

    def make(x: Any) -> Any:
        turned = op.permute_dims(op.nn.softmax(x, 1), [0, 2, 1])
        return op.concat([constant(table), turned], 1)

    operator = host(make, shapes, [((1, 8, 2), "float32")], samples)
    x = normal(samples, 2, 4)
    (y,), (wanted,) = computed(operator, [x]), as_c(operator, [x], samples)
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


F, ROW = ((2, 6, 8), "float32"), ((8,), "float32")
FIXED = normal(2, 8, 3)
#: Operators whose numbers are those of the C, bit by bit; what each takes.
SAME: dict[str, tuple[Callable[..., Any], Shapes]] = {
    **{
        name: (getattr(op, name), [F])
        for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "negative", "square")
    },
    **{
        name: (getattr(op, name), [F, ((6, 1), "float32")])
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
    },
    **{name: (getattr(op.nn, name), [F]) for name in ("relu", "silu", "gelu")},
    "both broadcast": (op.add, [((6, 1), "float32"), ((2, 1, 8), "float32")]),
    "a number": (lambda x: op.subtract(constant(np.float32(1.5)), x), [F]),
    "itself": (lambda x: op.multiply(x, x), [F]),
    "clip": (lambda x: op.clip(x, -1, 0.75), [F]),
    "sum": (lambda x: op.sum(x, [1]), [F]),
    "sum of all": (lambda x: op.sum(x, None, True), [F]),
    "mean": (lambda x: op.mean(x, [-2, -1], True), [F]),
    "layer_norm": (lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]), [F, ROW, ROW]),
    "layer_norm of two": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-2, -1]),
        [F, ((6, 8), "float32"), ((6, 8), "float32")],
    ),
    "matmul": (op.matmul, [F, ((2, 8, 3), "float32")]),
    "matmul with a constant": (lambda x: op.matmul(x, constant(FIXED[1])), [F]),
    "matmul of one": (op.matmul, [((6, 8), "float32"), ((2, 8, 3), "float32")]),
    "slice": (lambda x: op.strided_slice(x, [1, 2], [1, -7], [6, 8], [2, 3]), [F]),
    "broadcast": (lambda x: op.broadcast_to(x, (3, 2, 6, 8)), [((2, 1, 8), "float32")]),
    "turned in six axes": (
        lambda x: op.permute_dims(op.reshape(x, (1, 2, 3, 2, 2, 4)), (0, 3, 1, 5, 2, 4)),
        [F],
    ),
    "the same type": (lambda x: op.exp(op.astype(x, "float32")), [F]),
    "take": (lambda x: op.take(x, constant_int64([[5, 0], [2, 2]]), axis=1), [F]),
    "chain": (
        lambda x, y: op.add(op.multiply(op.tanh(op.add(x, y)), op.sigmoid(x)), op.exp(y)),
        [F, F],
    ),
}
POSITIVE = ("log", "sqrt", "rsqrt", "power")
ODD = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3e38], np.float32)


@pytest.mark.parametrize("name", SAME)
def test_numbers_are_those_of_the_c(name: str) -> None:
    """All operators with what is no number, too."""
    make, shapes = SAME[name]
    inputs = [normal(*shape, scale=2.0) for shape, _ in shapes]
    inputs = [np.abs(x) if name in POSITIVE else x for x in inputs]
    inputs[0].reshape(-1)[:8] = ODD[: inputs[0].size]
    wanted = run_module(module(make, *shapes), inputs)
    operator = host(make, shapes, [(y.shape, str(y.dtype)) for y in wanted])
    (y,), (in_c,) = computed(operator, inputs), as_c(operator, inputs)
    np.testing.assert_array_equal(y, in_c)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rows_of_a_table_are_taken_inside_it(dtype: str) -> None:
    table = normal(9, 5)
    shapes = [((1, 4), dtype)]
    operator = host(
        lambda at: op.take(constant(table), at, axis=0), shapes, [((1, 4, 5), "float32")], 3
    )
    at = np.array([[0, 8, 3, 3], [-1, 9, 2**31 - 1, -(2**31)], [1, 2, 3, 4]], dtype)
    (y,) = computed(operator, [at])
    np.testing.assert_array_equal(y, table[np.clip(at, 0, 8)])


def test_places_that_an_exporter_counts_are_known_when_it_is_compiled() -> None:
    """As ONNX's Gather comes: a negative place is counted from the end."""

    def make(x: Any) -> Any:
        at, zero = constant_int64(-2), constant_int64(0)
        extent = op.take(op.shape_to_tensor(op.shape_of(x)), constant_int64(1), 0, "wrap")
        return op.take(x, op.where(op.less(at, zero), op.add(at, extent), at), axis=1)

    operator = host(make, [F], [((2, 8), "float32")])
    x = normal(2, 6, 8)
    np.testing.assert_array_equal(computed(operator, [x])[0], x[:, -2])


def test_results_may_be_inputs_constants_or_each_other() -> None:
    table = normal(1, 5)
    shapes = [((1, 5), "float32")]

    def make(x: Any) -> Any:
        y = op.nn.softmax(x)
        return relax.Tuple([x, y, y, constant(table)])

    operator = host(make, shapes, shapes * 4)
    x = normal(1, 5)
    same, y, again, kept = computed(operator, [x])
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(y, again)
    np.testing.assert_allclose(y, run_module(operator.function, [x])[1], rtol=1e-6)
    np.testing.assert_array_equal(kept, table)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda x: op.cumsum(op.nn.softmax(op.permute_dims(x)), 1), "float32"),
        (lambda x: op.nn.softmax(op.astype(x, "float64")), "float64"),
    ],
    ids=["an operator that the runtime has not", "a type that it has not"],
)
def test_what_has_an_operator_of_another_kind_is_c_whole(
    make: Callable[..., Any], dtype: str
) -> None:
    """And leaves no temporary tensors."""
    operator = host(make, [((5, 5), "float32")], [((5, 5), dtype)])
    artifact = deployed(operator)
    assert [s.function for s in artifact.steps if isinstance(s, HostStep)] == [EXTERNAL_C]
    assert not [t.name for t in artifact.tensors if ".value" in t.name]


def test_a_function_of_relax_stays_with_a_host_that_has_it() -> None:
    shapes = [((1, 5), "float32")]
    assert not is_built_in(host(op.nn.softmax, shapes, shapes))
