# SPDX-License-Identifier: Apache-2.0
"""Tables of other libraries' words: each names an operator that Relax, TFLite or ONNX has."""

from __future__ import annotations

import importlib
import re

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")


#: Tables of Relax operators, of TFLite's and of ONNX's: each word must exist there.
RELAX = (
    *("frontend.canonical.MOVES", "frontend.canonical.CLAMPS", "frontend.layout.WINDOWS"),
    *("frontend.layout.UNARY", "frontend.layout.BINARY", "quantization.read_network._COMPUTED"),
    *("quantization.read_network._MOVED", "quantization.read_network._ELEMENTWISE"),
    *("quantization.read_network._REDUCING", "quantization.plan._MEANS"),
    *("quantization.fold.WEIGHTED", "quantization.fold.RESHAPES", "quantization.fold.AFFINE"),
    *("quantization.export_onnx._TABLE", "quantization.export_onnx._SIMPLE"),
    *("quantization.simulate._ORDER", "partition.patterns.elementwise._BINARY"),
)


TFLITE = (
    *("COPIES", "ONE_QUANTIZATION", "COMPUTED", "COMPUTED_INT8", "COMPUTED_UINT8", "SCALELESS"),
    *("OPERANDS", "TYPE_CHANGING", "PRODUCTS", "RATIOS", "STEPS", "BY_TYPE"),
)


ONNX = (
    "frontend.onnx.qoperator._TABLE",
    "frontend.onnx.qoperator._INTEGER_MOVES",
    "frontend.onnx.importer.DYNAMIC",
)


#: What onnxruntime alone defines, in its domain com.microsoft.
MICROSOFT = re.compile(r"QLinear\w+|QGemm|DynamicQuantize\w+|MatMulIntegerToFloat")


def words_of(place: str) -> list[str]:
    module, _, name = place.rpartition(".")
    return list(getattr(importlib.import_module(f"loadstone.{module}"), name))


@pytest.mark.parametrize("place", RELAX)
def test_words_of_relax_are_operators_of_relax(place: str) -> None:
    from loadstone.relax.compat import tvm

    known = set(tvm.ir.Op.list_op_names())
    assert [word for word in words_of(place) if f"relax.{word}" not in known] == []


@pytest.mark.parametrize("name", TFLITE)
def test_words_of_tflite_are_operators_of_tflite(name: str) -> None:
    import tflite as schema

    unknown = [
        word
        for word in words_of(f"frontend.tflite_kernels.{name}")
        if not isinstance(getattr(schema.BuiltinOperator, word, None), int)
    ]
    assert unknown == []


def test_a_tflite_kernel_has_one_rule_of_requantization() -> None:
    """The tables that say which bytes a kernel copies and which it computes do not overlap."""
    names = ("COPIES", "ONE_QUANTIZATION", "COMPUTED", "COMPUTED_INT8", "COMPUTED_UINT8")
    every = [word for name in names for word in words_of(f"frontend.tflite_kernels.{name}")]
    assert len(every) == len(set(every))
    names = ("COMPUTED", "COMPUTED_INT8", "COMPUTED_UINT8")
    computed = {word for name in names for word in words_of(f"frontend.tflite_kernels.{name}")}
    for name in ("OPERANDS", "TYPE_CHANGING", "PRODUCTS", "RATIOS", "STEPS"):
        assert set(words_of(f"frontend.tflite_kernels.{name}")) <= computed, name


@pytest.mark.parametrize("place", ONNX)
def test_words_of_onnx_are_operators_of_onnx(place: str) -> None:
    import onnx.defs

    unknown = [
        word
        for word in words_of(place)
        if not onnx.defs.has(word) and not MICROSOFT.fullmatch(word)
    ]
    assert unknown == []
