# SPDX-License-Identifier: Apache-2.0
"""tvm_external.py: TVM's external code generators in a composite, and functions that carry a
`Codegen` attribute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from loadstone.backend.target import resolve
from loadstone.backend.template.test_backend import small_model
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.errors import TargetError, UnsupportedError
from loadstone.frontend import load
from loadstone.relax.compat import FuseOpsByPattern, dpl, external_names, external_patterns, te, tvm

NAME = "loadstone_fake"
CALLS: list[str] = []


def magnitude_of(x: Any) -> Any:
    return lambda *i: te.abs(x[i])


def generate(functions: Any, options: Any, constant_names: Any) -> list[Any]:
    """A code generator as TVM calls it: one module for each function, here of `abs` by LLVM."""
    modules = []
    for function in functions:
        symbol = str(function.attrs["global_symbol"])
        CALLS.append(symbol)
        x = te.placeholder([int(n) for n in function.params[0].ty.shape], "float32", name="x")
        y = te.compute(x.shape, magnitude_of(x), name="y")
        body = te.create_prim_func([x, y]).with_attr("global_symbol", symbol)
        modules.append(
            tvm.compile(
                tvm.IRModule({symbol: body}), target=tvm.target.Target({"kind": "llvm"})
            ).mod
        )
    return modules


@pytest.fixture
def fake() -> Iterator[None]:
    """TVM with a code generator called NAME, which takes `abs`."""
    import tvm_ffi
    from tvm.relax.backend.pattern_registry import register_patterns

    tvm_ffi.register_global_func(f"relax.ext.{NAME}", generate, override=True)
    register_patterns([(f"{NAME}.abs", dpl.is_op("relax.abs")(dpl.wildcard()))])
    external_names.cache_clear()
    CALLS.clear()
    yield
    tvm_ffi.registry.remove_global_func(f"relax.ext.{NAME}")
    external_names.cache_clear()


def with_float_end(path: Path) -> Path:
    """The small model, and |y| in float behind it."""
    model = onnx.load(str(small_model(path / "small.onnx")))
    graph = model.graph
    graph.node.extend(
        [
            helper.make_node("DequantizeLinear", ["y", "scale", "zero"], ["real"]),
            helper.make_node("Abs", ["real"], ["magnitude"]),
        ]
    )
    shape = [d.dim_value for d in graph.output[0].type.tensor_type.shape.dim]
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("magnitude", TensorProto.FLOAT, shape))
    onnx.save(model, str(path / "float_end.onnx"))
    return path / "float_end.onnx"


def test_a_function_for_a_back_end_of_the_target_is_told_what_to_do(tmp_path: Path) -> None:
    rows = [("vta.abs", dpl.is_op("relax.abs")(dpl.wildcard()))]
    module = FuseOpsByPattern(rows, bind_constants=True, annotate_codegen=True)(
        load(with_float_end(tmp_path))
    )
    with pytest.raises(
        UnsupportedError,
        match=r"carries Codegen vta, a back end that divides the network itself: leave that out",
    ):
        compile(module, "vtaq-tiny")


@pytest.mark.parametrize("target", [f"{NAME},vtaq-tiny", f"vtaq-tiny,{NAME}"])
def test_an_external_generator_stands_in_a_composite(
    fake: None, tmp_path: Path, target: str
) -> None:
    model = with_float_end(tmp_path)
    compiled, plain = compile(model, target), compile(model, "vtaq-tiny")
    assert [row["where"] for row in compiled.explain()].count(f"host ({NAME})") == 1
    x = (
        np.random.default_rng(1)
        .integers(-128, 128, (1, *plain.graph.inputs[0].shape))
        .astype(np.int8)
    )
    (want,) = plain.run(x)
    assert CALLS == []
    (got,) = compiled.run(x)
    assert len(CALLS) == 1
    assert np.count_nonzero(want) > 100
    np.testing.assert_array_equal(got, want)


def test_functions_that_carry_codegen_stay_whole(fake: None, tmp_path: Path) -> None:
    """A module whose author has given a part to a code generator: Loadstone leaves it there,
    whatever the target is."""
    module = external_patterns(NAME)(load(with_float_end(tmp_path)))
    compiled = compile(module, "vtaq-tiny")
    assert [row["where"] for row in compiled.explain()].count(f"host ({NAME})") == 1
    compiled.run(np.zeros((1, *compiled.graph.inputs[0].shape), np.int8))
    assert len(CALLS) == 1


def test_a_function_for_an_absent_generator_is_named_in_one_line(tmp_path: Path) -> None:
    rows = [("absent.abs", dpl.is_op("relax.abs")(dpl.wildcard()))]
    module = FuseOpsByPattern(rows, bind_constants=True, annotate_codegen=True)(
        load(with_float_end(tmp_path))
    )
    with pytest.raises(
        UnsupportedError,
        match=r"function \w+ is for code generator absent, which this TVM was built without",
    ) as caught:
        compile(module, "vtaq-tiny")
    assert "\n" not in str(caught.value)


def test_generators_that_are_not_built_in_are_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"tensorrt", "example_npu"} <= set(external_names())
    for name in ("tensorrt", "example_npu"):
        with pytest.raises(
            TargetError,
            match=f"{name} is an external code generator of TVM, and this TVM was built without it",
        ) as caught:
            resolve(f"{name},vtaq-1x16x16")
        assert "\n" not in str(caught.value)
    assert main(["target"]) == 0
    assert "tensorrt     not built into this TVM" in capsys.readouterr().out
