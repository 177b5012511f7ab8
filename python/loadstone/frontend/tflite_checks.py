# SPDX-License-Identifier: Apache-2.0
"""Checks of an operator before anything is converted.

In:   an operator of a TFLite file.
Out:  nothing, or an UnsupportedError whose one line names the model, the operator and why.
Next: tflite.py converts operators that passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.tflite_cut import cut_hint
from loadstone.frontend.tflite_detection import DETECTION
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile
from loadstone.frontend.tflite_hybrid import HYBRID, is_hybrid
from loadstone.frontend.tflite_kernels import OPERANDS
from loadstone.frontend.tflite_operators import OPERATORS, wrong_operator
from loadstone.frontend.tflite_rules import check_kernel
from loadstone.frontend.tflite_state import STATEFUL
from loadstone.frontend.tflite_wide import WIDE, is_wide

__all__ = ["CONVERSIONS", "check_operator", "refusing"]

#: Operators of any type to any type: a float input with an integer constant is no sign of dynamic
#: range quantization.
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE", "CAST")


@contextmanager
def refusing(file: TfliteFile, record: OperatorRecord, name: str) -> Iterator[None]:
    """What is not done of an operator says which one, in words and as the fields of a Refusal; a
    file that contradicts itself says so in words. name: of the model."""
    place = file.describe(record)
    try:
        yield
    except UnsupportedError as error:
        index = (*record.outputs, *record.inputs, None)[0]
        node = "" if index is None else short(file.tensors[index].name)
        raise error.about(name, record.code, node, place) from error.__cause__
    except ModelError as error:
        begin = f"{name}: {place}: "
        raise ModelError(begin + str(error).removeprefix(begin)) from error.__cause__


def check_operator(file: TfliteFile, record: OperatorRecord, name: str) -> None:
    """name: of the model, which begins the message."""
    where = f"{name}: {file.describe(record)}"
    if record.code in DETECTION:
        return
    if record.code not in OPERATORS:
        hint = cut_hint(file, record)
        raise UnsupportedError(f"{where}: no importer for this operator: {hint}")
    _check_sixteen_bits(file, record, where)
    types = [_type(file.tensors[k]) if k >= 0 else None for k in record.inputs]
    made = [_type(file.tensors[k]) for k in record.outputs]
    wrong = wrong_operator(record.code, record.options, types, made)
    if wrong:
        raise UnsupportedError(f"{where}: it {wrong}: {cut_hint(file, record)}")
    if record.code in STATEFUL or is_wide(file, record):
        return
    if any(index < 0 for index in record.inputs[:-1]):
        raise UnsupportedError(f"{where}: it leaves out an input that is not the last one")
    tensors = [file.tensors[index] for index in (*record.inputs, *record.outputs) if index >= 0]
    if is_hybrid(file, record):
        return
    _check_dynamic_range(record, tensors, where)
    if record.code in OPERANDS:
        _check_weights(file, record, where)
    check_kernel(file, record, where)
    _check_activations(tensors, where)


def _type(tensor: TensorRecord) -> str:
    """Of an activation that stands for real numbers, whatever its bits: int8."""
    return "int8" if tensor.dtype == "int16" and tensor.is_quantized else tensor.dtype


def _check_activations(tensors: list[TensorRecord], where: str) -> None:
    for tensor in tensors:
        if tensor.data is None and tensor.scales is not None and tensor.scales.size > 1:
            raise UnsupportedError(f'{where}: activation "{tensor.name}" has a scale per channel')


def _check_sixteen_bits(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """Operators with a state have int16 inside, and some are done on it."""
    if record.code in STATEFUL or is_wide(file, record):
        return
    for index in (*record.inputs, *record.outputs):
        tensor = file.tensors[index]
        if index >= 0 and tensor.is_quantized and tensor.dtype == "int16":
            raise UnsupportedError(
                f'{where}: tensor "{short(tensor.name)}" is int16, and with 16x8 quantization '
                f"{', '.join(sorted(WIDE))} are done: convert with int8 activations"
            )


def _check_dynamic_range(record: OperatorRecord, tensors: list[TensorRecord], where: str) -> None:
    """Float activations with int8 weights, of an operator that tflite_hybrid.py lacks: the kernels
    would choose scales at run time."""
    activations = [tensor for tensor in tensors if tensor.data is None]
    weights = [
        tensor
        for tensor in tensors
        if tensor.data is not None and tensor.is_quantized and tensor.dtype == "int8"
    ]
    if (
        weights
        and record.code not in CONVERSIONS
        and all(tensor.dtype == "float32" for tensor in activations)
    ):
        raise UnsupportedError(
            f"{where}: float activations with int8 weights (dynamic range quantization), and "
            f"{', '.join(sorted(HYBRID))} are done so: convert the model with full integer "
            "quantization, or quantize the float model with `loadstone quantize`"
        )


def _check_weights(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """TFLite's int8 kernels take weights as symmetric and never read their zero points (but for
    a dense layer's single one)."""
    weights = file.tensors[record.inputs[1]] if len(record.inputs) > 1 else None
    if (
        weights is None
        or weights.dtype != "int8"
        or weights.zero_points is None
        or not np.any(weights.zero_points)
    ):
        return
    if record.code != "FULLY_CONNECTED" or weights.zero_points.size > 1:
        raise ModelError(
            f'{where}: its int8 weights "{short(weights.name)}" have a zero point other than 0'
        )
