# SPDX-License-Identifier: Apache-2.0
"""What LiteRT's kernels do to 8-bit integers, where the float operator between dequantize and
quantize does not say it.

In:   an operator of a TFLite file.
Out:  nothing, or an UnsupportedError whose one line names operator, tensor and numbers; `relabels`
      for copies of bytes.
Next: tflite.py asks before it converts an operator.

A kernel on integers is no float operator that is rounded: some never read a scale (a reshape copies
bytes, whatever scale the file gives its output), some ignore an activation, some have arithmetic of
their XX
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tflite

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile
from loadstone.frontend.tflite_kernels import (
    BY_TYPE,
    COMPUTED,
    COMPUTED_INT8,
    COMPUTED_UINT8,
    COPIES,
    EIGHT_BITS,
    MAX_RATIO,
    ONE_QUANTIZATION,
    OPERANDS,
    PRODUCTS,
    RATIOS,
    SCALELESS,
    STEPS,
    TYPE_CHANGING,
)

__all__ = ["check_kernel", "check_types", "relabels", "same_quantization"]

#: As partition/patterns/ has forms for: what is longer becomes an operator of float32.
MAX_CONCATENATED = 8
#: Under a smaller step real numbers of 2 and more leave int32.
MIN_SCALE = 2.0**-30
#: The upper bound of a clamp, and how many steps of the output it may be: LiteRT takes it as an
#: int32, with a zero point.
_BOUNDS = {
    tflite.ActivationFunctionType.RELU6: 6,
    tflite.ActivationFunctionType.RELU_N1_TO_1: 1,
}
_MOST_STEPS = 1 << 30


def check_types(file: TfliteFile, name: str) -> None:
    """A model whose operators are int8 here and uint8 there: their kernels differ, and the graph
    has one rule for all."""
    seen: dict[str, OperatorRecord] = {}
    for record in file.operators:
        for tensor in _eight_bits(file, record.inputs[:1]):
            if record.code in BY_TYPE:
                seen.setdefault(tensor.dtype, record)
    if len(seen) > 1:
        first, second = (file.describe(record) for record in seen.values())
        raise UnsupportedError(
            f"{name}: {first} is {next(iter(seen))}, {second} is not: a model must be one or "
            "the other inside"
        )


def check_kernel(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """Raises UnsupportedError unless the operator, as it is read here, is what LiteRT's kernel
    computes."""
    inputs, outputs = _eight_bits(file, record.inputs), _eight_bits(file, record.outputs)
    _check_scales(file, record, where)
    _check_resize(record, where)
    _check_values(file, record, where)
    if record.code == "QUANTIZE" and outputs and not inputs:
        _check_step(outputs[0], where)
    if not inputs and not outputs:
        return
    _check_known(record, inputs, outputs, where)
    _check_one_type(file, record, where)
    _check_activation(record, outputs, where)
    if record.code in OPERANDS:
        _check_weighted(file, record, where)
    _check_ratio(record, inputs, outputs, where)
    if record.code in STEPS:
        _check_steps(record, outputs, where)
    _check_copies(file, record, inputs, outputs, where)


def _check_copies(
    file: TfliteFile,
    record: OperatorRecord,
    inputs: list[TensorRecord],
    outputs: list[TensorRecord],
    where: str,
) -> None:
    """What a kernel moves as it is means the same on both sides."""
    if record.code == "CONCATENATION" and len(inputs) > MAX_CONCATENATED:
        _check_concatenation(inputs, outputs, where)
    if (
        record.code in ONE_QUANTIZATION
        or _joins_int8(record, inputs)
        or (record.code in COPIES and not _one_to_one(inputs, outputs))
    ):
        for tensor in (inputs + outputs)[1:]:
            _check_same(inputs[0] if inputs else outputs[0], tensor, where)
    if (
        relabels(file, record)
        and record.code == "MAX_POOL_2D"
        and _activation(record) != tflite.ActivationFunctionType.NONE
    ):
        _check_same(inputs[0], outputs[0], where)


def _check_known(
    record: OperatorRecord, inputs: list[TensorRecord], outputs: list[TensorRecord], where: str
) -> None:
    """The operator is in one of the lists of tflite_kernels.py."""
    if record.code == "DEQUANTIZE" and outputs:
        raise UnsupportedError(
            f'{where}: it writes "{short(outputs[0].name)}", which is {outputs[0].dtype}, '
            "not float32"
        )
    if record.code == "SUM" and _only_int8(inputs, outputs):
        raise UnsupportedError(
            f'{where}: LiteRT\'s reference kernel reads the int8 tensor "{short(inputs[0].name)}" '
            "as uint8 and gives other integers than its other kernels: use MEAN, with the output's "
            "scale divided by the number of elements, or keep it in float"
        )
    by_type = COMPUTED_INT8 if _only_int8(inputs, outputs) else COMPUTED_UINT8
    if record.code not in (*COPIES, *ONE_QUANTIZATION, *COMPUTED, *by_type):
        tensor = (inputs + outputs)[0]
        raise UnsupportedError(
            f"{where}: what its kernel makes of the {tensor.dtype} tensor "
            f'"{short(tensor.name)}" is not implemented: '
            "keep this operator in float, between DEQUANTIZE and QUANTIZE"
        )


def _check_resize(record: OperatorRecord, where: str) -> None:
    """LiteRT adds half a pixel and stretches to the corners; the importer has one or the other."""
    both = ("align_corners", "half_pixel_centers")
    if record.code == "RESIZE_NEAREST_NEIGHBOR" and all(record.options[name] for name in both):
        raise UnsupportedError(
            f"{where}: align_corners and half_pixel_centers are both set: convert the model with "
            "one of them"
        )


def _check_step(tensor: TensorRecord, where: str) -> None:
    """LiteRT divides by the scale and takes the quotient as an int32."""
    assert tensor.scales is not None
    if tensor.scales[0] < MIN_SCALE:
        raise UnsupportedError(
            f'{where}: "{short(tensor.name)}" has the scale {tensor.scales[0]:.6g}, below '
            f"{MIN_SCALE:.6g}: nearly all of its results would saturate"
        )


def _check_values(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """Numbers that a kernel would address memory with, or that have no meaning."""
    if record.code == "FAKE_QUANT" and not record.options["min"] < record.options["max"]:
        low, high = (record.options[name] for name in ("min", "max"))
        raise UnsupportedError(
            f"{where}: its range is {low:g} to {high:g}: convert it with another"
        )
    if record.code.startswith("UNSORTED_SEGMENT"):
        numbers, count = (file.tensors[index].data for index in record.inputs[1:3])
        if numbers is None or count is None:
            raise UnsupportedError(f"{where}: its segments are computed: only constants are known")
        outside = numbers[(numbers < 0) | (numbers >= count.reshape(-1)[0])]
        if outside.size:
            raise UnsupportedError(
                f"{where}: its segment {outside.reshape(-1)[0]} is none of {count.reshape(-1)[0]}"
            )


def _check_scales(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """8-bit integers have a scale where their kernel reads one, and one scale but for weights."""
    for position, index in enumerate((*record.inputs, *record.outputs)):
        tensor = file.tensors[index]
        if index < 0 or tensor.dtype not in EIGHT_BITS:
            continue
        if tensor.scales is None and record.code not in SCALELESS:
            raise UnsupportedError(
                f"{where}: its kernel needs a scale, and the {tensor.dtype} tensor "
                f'"{short(tensor.name)}" has none: quantize the model again'
            )
        weights = record.code in OPERANDS and position == 1
        many = tensor.scales is not None and tensor.scales.size > 1
        if many and not weights and record.code != "DEQUANTIZE":
            raise UnsupportedError(
                f'{where}: "{short(tensor.name)}" has a scale per index of axis {tensor.axis}, and '
                "only weights can have"
            )


def relabels(file: TfliteFile, record: OperatorRecord) -> bool:
    """Whether it copies integers into a tensor where they mean other real numbers."""
    inputs, outputs = _eight_bits(file, record.inputs), _eight_bits(file, record.outputs)
    return (
        record.code in COPIES
        and _one_to_one(inputs, outputs)
        and not same_quantization(inputs[0], outputs[0])
    )


def _eight_bits(file: TfliteFile, indices: Any) -> list[TensorRecord]:
    found = [file.tensors[index] for index in indices if index >= 0]
    return [tensor for tensor in found if tensor.is_quantized and tensor.dtype in EIGHT_BITS]


def _one_to_one(inputs: list[TensorRecord], outputs: list[TensorRecord]) -> bool:
    return len(inputs) == 1 and len(outputs) == 1


def _joins_int8(record: OperatorRecord, inputs: list[TensorRecord]) -> bool:
    """uint8 parts are rescaled, int8 ones are not (LiteRT refuses them)."""
    return record.code == "CONCATENATION" and _only_int8(inputs)


def _only_int8(*sides: list[TensorRecord]) -> bool:
    return all(tensor.dtype == "int8" for side in sides for tensor in side)


def same_quantization(first: TensorRecord, second: TensorRecord) -> bool:
    """Whether equal integers of both mean the same numbers, or both have no scale."""
    pairs = ((first.scales, second.scales), (first.zero_points, second.zero_points))
    return all(a is b if a is None or b is None else bool(np.array_equal(a, b)) for a, b in pairs)


def _check_same(first: TensorRecord, second: TensorRecord, where: str) -> None:
    if not same_quantization(first, second):
        raise UnsupportedError(
            f"{where}: its kernel copies integers as they are, but {_grid(first)} and "
            f"{_grid(second)} differ: "
            "convert the model with one quantization for both"
        )


def _grid(tensor: TensorRecord) -> str:
    assert tensor.scales is not None
    assert tensor.zero_points is not None
    return (
        f'"{short(tensor.name)}" (scale {tensor.scales[0]:.6g}, zero point {tensor.zero_points[0]})'
    )


def _activation(record: OperatorRecord) -> int:
    """The fused activation, of operators that can have one."""
    none = int(tflite.ActivationFunctionType.NONE)
    return int(record.options.get("fused_activation_function", none))


def _check_one_type(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """Kernels have one type for activations in and out; what LiteRT makes of another one in the
    file is no rule."""
    if record.code in TYPE_CHANGING:
        return
    tensors = [file.tensors[index] for index in (*record.inputs, *record.outputs) if index >= 0]
    numbers = [tensor for tensor in tensors if tensor.dtype not in ("int32", "int64", "bool")]
    if len({(tensor.dtype, tensor.is_quantized) for tensor in numbers}) > 1:
        names = ", ".join(
            f'"{short(tensor.name)}" '
            f"{tensor.dtype}{'' if tensor.is_quantized else ' without a scale'}"
            for tensor in numbers[:4]
        )
        raise UnsupportedError(f"{where}: its tensors have several types: {names}")


def _check_activation(record: OperatorRecord, outputs: list[TensorRecord], where: str) -> None:
    """LiteRT takes the bound of a clamp as an int32."""
    activation = _activation(record)
    bound = _BOUNDS.get(activation)
    if bound and outputs and outputs[0].scales is not None:
        steps = bound / float(outputs[0].scales[0])
        if steps > _MOST_STEPS:
            raise UnsupportedError(
                f'{where}: {bound} is {steps:.6g} steps of "{short(outputs[0].name)}", above '
                f"{_MOST_STEPS}: the bound of its fused activation is no int32"
            )


def _check_ratio(
    record: OperatorRecord, inputs: list[TensorRecord], outputs: list[TensorRecord], where: str
) -> None:
    if not inputs or not outputs or outputs[0].scales is None:
        return
    scales = [float(tensor.scales.max()) for tensor in inputs if tensor.scales is not None]
    ratio = _ratio(record.code, scales, float(outputs[0].scales[0]))
    if ratio > MAX_RATIO:
        raise UnsupportedError(
            f"{where}: the scales of its inputs are {ratio:.6g} times that of "
            f'"{short(outputs[0].name)}", above {MAX_RATIO}: '
            "nearly all of its results would saturate"
        )


def _ratio(code: str, scales: list[float], output: float) -> float:
    """How many steps of the output one step of the inputs is; 0 where it does not matter."""
    if code == "DIV":
        return scales[0] / scales[-1] / output
    if code == "SQUARED_DIFFERENCE":  # LiteRT aborts where its multiplier is 1
        return (2 * max(scales)) ** 2 / (output * 2**14) * (MAX_RATIO + 1)
    if code == "PRELU":
        return scales[0] * max([1.0, *scales[1:]]) / output
    if code in PRODUCTS:
        return math.prod(scales) / output
    return max(scales) / output if code in RATIOS else 0.0


def _check_steps(record: OperatorRecord, outputs: list[TensorRecord], where: str) -> None:
    scale, wanted = STEPS[record.code]
    for tensor in outputs:
        zero_point = wanted + (128 if tensor.dtype == "uint8" else 0)
        assert tensor.scales is not None
        assert tensor.zero_points is not None
        if tensor.scales[0] != np.float32(scale) or tensor.zero_points[0] != zero_point:
            raise UnsupportedError(
                f"{where}: its kernel writes steps of 1/{round(1 / scale)} from {zero_point}, the "
                f"file says {_grid(tensor)}"
            )


def _check_concatenation(
    inputs: list[TensorRecord], outputs: list[TensorRecord], where: str
) -> None:
    for tensor in inputs:
        if not same_quantization(tensor, outputs[0]):
            raise UnsupportedError(
                f"{where}: it joins {len(inputs)} tensors of several scales, above "
                f"{MAX_CONCATENATED}: {_grid(tensor)} and {_grid(outputs[0])} differ"
            )


def _check_weighted(file: TfliteFile, record: OperatorRecord, where: str) -> None:
    """Weights and bias are constants; scales per channel lie along the output channels, where the
    kernel looks for them."""
    operands = OPERANDS[record.code]
    if record.code == "FULLY_CONNECTED" and file.tensors[record.inputs[1]].data is None:
        return  # tflite_dense.py has the kernel on two activations
    for role, position in (("weights", 1), ("bias", operands.bias)):
        for index in record.inputs[position : position + 1]:
            if index >= 0 and file.tensors[index].data is None:
                raise UnsupportedError(
                    f'{where}: its {role} "{short(file.tensors[index].name)}" are no constant of '
                    "the model"
                )
    if len(record.inputs) < 2 or record.inputs[1] < 0:
        return
    weights = file.tensors[record.inputs[1]]
    if (
        weights.scales is not None
        and weights.scales.size > 1
        and weights.axis != operands.output_axis
    ):
        raise UnsupportedError(
            f'{where}: its weights "{short(weights.name)}" have a scale per index of axis '
            f"{weights.axis}, "
            f"not of the output channels (axis {operands.output_axis})"
        )
