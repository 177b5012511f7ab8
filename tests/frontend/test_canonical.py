# SPDX-License-Identifier: Apache-2.0
"""frontend/canonical.py and layout.py: the form that everything after them relies on, checked on
every model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.frontend import import_model, load
from loadstone.frontend.canonical import quantized_form
from loadstone.frontend.layout import channels_last
from loadstone.frontend.rewrites import canonical
from loadstone.relax.compat import (
    bindings,
    dtype,
    is_call,
    is_constant,
    name_of,
    op_name,
    relax,
    result,
    tvm,
    uses,
)
from loadstone.relax.compat import value as value_of
from loadstone.relax.saved import run_module
from tests.relax_text import compare_rewritten

QUANTIZED = (
    *(
        "mlpt_resnet8_int8.tflite",
        "mlpt_kws_int8.tflite",
        "mlpt_ad_int8.tflite",
        "mlpt_strww_int8.tflite",
        "tflm_person_detect.tflite",
    ),
    *(
        "coral_mnv1_0.25_128_u8.tflite",
        "tinyengine_mcunet_det_int8.tflite",
        "coral_deeplab_mnv2_dm05.tflite",
    ),
    *(
        "mlonmcu_micro_kws_m_qdq.onnx",
        "mlonmcu_micro_kws_m_qoperator.onnx",
        "squeezenet_qdq_int8.onnx",
        "ulfg_slim_320_qdq_int8.onnx",
    ),
)


#: Operators that canonical.py writes itself; an alias of the result is none.
MADE_HERE = ("quantize", "dequantize", "reshape", "permute_dims", "nn.conv2d", "concat", "add")


def counted(function: Any) -> Counter[str]:
    return Counter(
        op_name(value) for _, value in bindings(function) if isinstance(value, relax.Call)
    )


@pytest.mark.parametrize("file", QUANTIZED)
def test_every_model_takes_the_one_form(shared: Path, file: str) -> None:
    function = load(shared / "models" / file)["main"]
    relax.analysis.well_formed(tvm.IRModule({"main": function}))
    readers, names = uses(function), []
    for variable, value in bindings(function):
        if is_call(value, "dequantize"):
            assert readers[variable] == 1, "a dequantize has one reader"
        if is_call(value, "quantize", "dequantize"):
            names.append(name_of(value))
        if dtype(variable) == "uint8" and is_call(value, *MADE_HERE):
            assert variable in set(result(function)), "uint8 is at the edges only"
        if is_call(value, "nn.conv2d"):
            assert (value.attrs.data_layout, value.attrs.kernel_layout) == ("NHWC", "OHWI")
            weights = dict(bindings(function))[value.args[1]]
            assert is_call(weights, "dequantize")
            assert is_constant(weights.args[0])
        if is_call(value, "nn.max_pool2d", "nn.avg_pool2d", "image.resize2d"):
            assert value.attrs.layout == "NHWC"
    assert None not in names
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "file",
    ["mlpt_resnet8_int8.tflite", "coral_mnv1_0.25_128_u8.tflite", "squeezenet_qdq_int8.onnx"],
)
def test_a_module_in_the_form_stays_as_it_is(shared: Path, file: str) -> None:
    once = load(shared / "models" / file)
    assert counted(canonical(once)["main"]) == counted(once["main"])


@pytest.mark.parametrize(
    "file",
    [
        "mnist8_f32.onnx",
        *(
            pytest.param(file, marks=pytest.mark.full)
            for file in ("mlonmcu_micro_kws_m_f32.onnx", "mlpt_resnet8_f32.tflite")
        ),
    ],
)
def test_float_models_compute_the_same_in_the_form(shared: Path, file: str) -> None:
    """Layout and folding are no arithmetic: TVM runs the importer's module and ours."""
    imported = import_model(shared / "models" / file)
    made = canonical(imported)
    shape = [int(extent) for extent in made["main"].params[0].ty.shape]
    data = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    for got, want in zip(run_module(made, [data]), run_module(imported, [data]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_transposes_of_an_onnx_model_are_put_off_until_they_cancel(shared: Path) -> None:
    imported = import_model(shared / "models" / "ulfg_slim_320_qdq_int8.onnx")["main"]
    assert counted(imported)["permute_dims"] == 8
    assert (
        counted(channels_last(imported))["permute_dims"] <= 1 + 42
    )  # the input's, and one per kernel: constants, folded later
    assert (
        counted(load(shared / "models" / "ulfg_slim_320_qdq_int8.onnx")["main"])["permute_dims"]
        == 1
    )


def test_a_pad_by_the_zero_point_joins_the_convolution(shared: Path) -> None:
    imported = import_model(shared / "models" / "tinyengine_mcunet_det_int8.tflite")["main"]
    assert counted(imported)["nn.pad"] == 5
    assert (
        counted(load(shared / "models" / "tinyengine_mcunet_det_int8.tflite")["main"])["nn.pad"]
        == 0
    )


# --------------------------------------------------------------------------------------------------
# Small functions, made by hand
# --------------------------------------------------------------------------------------------------


def quantized(data: Any, scale: float, zero_point: int, kind: str = "int8") -> Any:
    return relax.op.quantize(
        data,
        relax.const(scale, "float32"),
        relax.const(zero_point, "int32"),
        axis=0,
        out_dtype=kind,
    )


def dequantized(data: Any, scale: float, zero_point: int) -> Any:
    return relax.op.dequantize(
        data, relax.const(scale, "float32"), relax.const(zero_point, "int32"), axis=0
    )


def function_of(build: Any, shape: tuple[int, ...] = (2, 6), kind: str = "int8") -> Any:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, kind))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(build(builder, x))
        builder.emit_func_output(output)
    return builder.get()


def test_a_dequantize_of_two_readers_becomes_two() -> None:
    def build(builder: Any, x: Any) -> Any:
        real = builder.emit(dequantized(x, 0.5, 3))
        first = builder.emit(quantized(relax.op.add(real, real), 0.25, 0))
        return quantized(relax.op.multiply(real, dequantized(first, 0.25, 0)), 0.125, 1)

    assert counted(canonical(function_of(build))["main"]) == {
        "dequantize": 4,
        "add": 1,
        "multiply": 1,
        "quantize": 2,
    }


def test_a_move_keeps_its_inputs_quantization_and_the_change_comes_after() -> None:
    def build(builder: Any, x: Any) -> Any:
        return quantized(relax.op.reshape(dequantized(x, 0.5, 3), (3, 4)), 0.25, 0)

    assert counted(canonical(function_of(build))["main"]) == {
        "dequantize": 2,
        "reshape": 1,
        "quantize": 2,
    }


def test_a_quantize_is_done_before_the_moves_behind_an_operator() -> None:
    def build(builder: Any, x: Any) -> Any:
        total = builder.emit(relax.op.add(dequantized(x, 0.5, 3), dequantized(x, 0.5, 3)))
        return quantized(relax.op.reshape(relax.op.nn.relu(total), (12,)), 0.25, 0)

    calls = [
        op_name(value)
        for _, value in bindings(canonical(function_of(build))["main"])
        if isinstance(value, relax.Call)
    ]
    assert calls == [
        "dequantize",
        "dequantize",
        "add",
        "nn.relu",
        "quantize",
        "dequantize",
        "reshape",
        "quantize",
    ]


def test_a_relu_that_something_else_reads_becomes_integers() -> None:
    def build(builder: Any, x: Any) -> Any:
        return relax.op.exp(relax.op.nn.relu(dequantized(x, 0.5, 3)))

    assert counted(canonical(function_of(build))["main"]) == {
        "dequantize": 2,
        "nn.relu": 1,
        "quantize": 1,
        "exp": 1,
    }


def test_uint8_becomes_int8_and_an_edge() -> None:
    def build(builder: Any, x: Any) -> Any:
        return quantized(
            relax.op.add(dequantized(x, 0.5, 131), dequantized(x, 0.5, 131)), 0.25, 128, "uint8"
        )

    function = canonical(function_of(build, kind="uint8"))["main"]
    assert counted(function) == {"dequantize": 4, "quantize": 3, "add": 1}
    assert [dtype(value) for value in (function.params[0], result(function)[0])] == [
        "uint8",
        "uint8",
    ]
    data = np.arange(250, 262, dtype=np.int16).astype(np.uint8).reshape(2, 6)
    np.testing.assert_array_equal(
        *(
            run_module(m, [data])[0]
            for m in (canonical(function_of(build, kind="uint8")), function_of(build, kind="uint8"))
        )
    )


def test_a_scale_per_channel_of_a_constant_follows_its_axis() -> None:
    weights = np.arange(12, dtype=np.int8).reshape(2, 6)

    def build(builder: Any, x: Any) -> Any:
        scales = relax.const(np.array([0.5, 0.25], np.float32))
        real = relax.op.dequantize(
            relax.const(weights), scales, relax.const(np.zeros(2, np.int32)), axis=0
        )
        turned = relax.op.permute_dims(real, [1, 0])
        return quantized(relax.op.matmul(dequantized(x, 0.5, 3), turned), 0.25, 0)

    function = canonical(function_of(build))["main"]
    assert counted(function) == {"dequantize": 2, "matmul": 1, "quantize": 1}
    constant = next(
        value
        for _, value in bindings(function)
        if is_call(value, "dequantize") and is_constant(value.args[0])
    )
    assert int(constant.attrs.axis) == 1
    np.testing.assert_array_equal(value_of(constant.args[0]), weights.T)


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("canonical", quantized_form, update_golden)


def test_text_in_text_out_of_layout(update_golden: bool) -> None:
    compare_rewritten("layout", channels_last, update_golden)
