# SPDX-License-Identifier: Apache-2.0
"""vta/region/byte_planes.py: a product of integers as planes, which join to the same int32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.compiler import compile
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.relax.compat import (
    bindings,
    dtype,
    exact_constant,
    is_call,
    named,
    op_name,
    relax,
    result,
    tvm,
)
from loadstone.relax.row_calls import rescale_rows
from loadstone.relax.saved import run_module
from loadstone.vta.region.byte_planes import with_byte_planes
from tests.onnx_builder import Graph

DRAW = np.random.default_rng(2)


def product(weights: Any, rows: tuple[int, ...] = (1, 5)) -> Any:
    graph = Graph()
    x = graph.input((*rows, weights.shape[0]), np.int8)
    y = graph.node("MatMulInteger", x, graph.constant(weights))
    shape = (*rows, weights.shape[1])
    return canonical(onnx.from_bytes(graph.save([(y, np.int32)], [shape]), "made by a test"))


def random_weights(depth: int, columns: int) -> Any:
    return DRAW.integers(-128, 128, (depth, columns)).astype(np.int8)


def planes_in(module: Any) -> list[int]:
    joins = [call for _, call in bindings(module["main"]) if is_call(call, "concat")]
    return [len(call.args[0].fields) for call in joins]


@pytest.mark.parametrize(
    ("weights", "planes"),
    [
        (np.full((516, 16), 127, np.int8), 3),
        (np.full((517, 16), 127, np.int8), 4),
        (np.full((20, 7), -128, np.int8), 3),
    ],
)
def test_the_weights_say_how_many_planes_there_are(weights: Any, planes: int) -> None:
    assert planes_in(with_byte_planes(product(weights), 16)) == [planes]


def test_what_has_no_such_product_stays_as_it_is() -> None:
    graph = Graph()
    y = graph.node("Relu", graph.input((1, 8), np.float32))
    module = canonical(onnx.from_bytes(graph.save([(y, np.float32)]), "made by a test"))
    assert with_byte_planes(module, 16) is module


def test_the_sums_keep_their_name_and_type() -> None:
    before = product(random_weights(20, 7))
    after = with_byte_planes(before, 16)
    (old,), (new,) = result(before["main"]), result(after["main"])
    last = dict(bindings(after["main"]))[new]
    assert (op_name(last), dtype(last)) == ("bitwise_or", "int32")
    assert new.name == old.name


@pytest.mark.parametrize(
    ("depth", "columns", "value"),
    [
        (64, 32, None),
        (20, 7, None),  # columns that fill no block
        (530, 16, 127),  # sums beyond 24 bits
        (530, 16, -128),
    ],
)
@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16"])
def test_a_device_s_planes_join_to_the_sums(
    depth: int, columns: int, value: int | None, device: str
) -> None:
    weights = random_weights(depth, columns)
    if value is not None:
        weights[:, 0] = value
    compiled = compile(product(weights), device)
    assert next(o.kind for o in compiled.partition.graph.operators) == "plane_dense"
    x = DRAW.integers(-128, 128, (1, 1, 5, depth)).astype(np.int8)
    x[0, 0, 0], x[0, 0, 1] = 127, -128
    (got,) = compiled.run(x)
    np.testing.assert_array_equal(got, x.astype(np.int32) @ weights.astype(np.int32))


@pytest.mark.parametrize(("depth", "columns"), [(64, 32), (20, 7), (530, 16)])
def test_a_device_that_stores_sums_makes_no_planes(depth: int, columns: int) -> None:
    """They come back as int32: the host does nothing but unpack them."""
    weights = random_weights(depth, columns)
    weights[:, 0] = 127
    compiled = compile(product(weights), "vtaq2-1x16x16")
    assert [o.kind for o in compiled.partition.graph.operators] == ["plane_dense"]
    names = [step.name.split()[0] for step in compiled.artifact.steps]
    assert names == ["pack", "vta_0", "unpack"]
    x = DRAW.integers(-128, 128, (1, 1, 5, depth)).astype(np.int8)
    x[0, 0, 0], x[0, 0, 1] = 127, -128
    (got,) = compiled.run(x)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, x.astype(np.int32) @ weights.astype(np.int32))


@pytest.mark.parametrize("also", [False, True], ids=["alone", "beside a reader of sums"])
def test_rescaled_sums_are_read_as_planes(also: bool) -> None:
    """A call of rescale_rows reads the bytes; sums are joined where something else reads them."""
    weights, rng = random_weights(70, 20), np.random.default_rng(3)
    scales = np.linspace(0.5, 2, 20, dtype=np.float32)

    def network(x: Any, s: Any) -> Any:
        sums = builder.emit(named(relax.op.matmul(x, exact_constant(weights), "int32"), "sums"))
        call = rescale_rows(sums, s, exact_constant(scales))
        y = builder.emit(named(call, "y"))
        return relax.Tuple([y, sums]) if also else y

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 70), "int8"))
    s = relax.Var("s", relax.TensorType((1, 3, 1), "float32"))
    with builder.function("main", [x, s]):
        with builder.dataflow():
            final = builder.emit_output(network(x, s))
        builder.emit_func_output(final)
    before = canonical(with_attributes(builder.get()))
    after = with_byte_planes(before, 16)
    calls = [op_name(call) for _, call in bindings(after["main"])]
    assert ("bitwise_or" in calls) == also
    given = [
        rng.integers(-127, 128, (1, 3, 70)).astype(np.int8),
        rng.uniform(0.1, 1, (1, 3, 1)).astype(np.float32),
    ]
    for found, wanted in zip(run_module(after, given), run_module(before, given), strict=True):
        assert np.array_equal(found, wanted)


def with_attributes(module: Any) -> Any:
    return tvm.IRModule({"main": module["main"].with_attr("loadstone.numerics", "onnx")})
