# SPDX-License-Identifier: Apache-2.0
"""Fold the operators of a TFLite file that depend on constants only.

In:   a TfliteFile.
Out:  the same network without the operators whose inputs are all constants: their results are
      constants of the file.
Next: tflite.py converts the remaining operators.

Converters write float16 weights followed by DEQUANTIZE, and a chain of SHAPE, STRIDED_SLICE and
PACK where the batch was open when the network was traced. Only operators whose result NumPy
computes exactly are folded here: moves, integers, and single roundings of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile
from loadstone.frontend.tflite_operators import OPERATORS, wrong_operator
from loadstone.frontend.tflite_options import Options
from loadstone.numerics import Array

__all__ = ["FOLDS", "folded"]

#: Constants, options and the tensor that is written -> its values, or None where the rule has none.
_Rule: TypeAlias = Callable[[Sequence[Array], Options, TensorRecord], Array | None]

#: Operators that read no element of their input.
_OF_SHAPES = ("SHAPE", "RANK")


def folded(file: TfliteFile) -> TfliteFile:
    """An operator that writes an output of the model stays, as outputs are made by operators."""
    tensors, left = list(file.tensors), list[OperatorRecord]()
    for record in file.operators:
        made = None if set(record.outputs) & set(file.outputs) else _computed(tensors, record)
        if made is None:
            left.append(record)
            continue
        for index, array in zip(record.outputs, made, strict=True):
            tensors[index] = replace(tensors[index], data=array)
    return replace(file, tensors=tuple(tensors), operators=tuple(left))


def _computed(tensors: Sequence[TensorRecord], record: OperatorRecord) -> list[Array] | None:
    """The results; None where one is not known, or is not what the file says of its tensor."""
    sources = [tensors[index] for index in record.inputs if index >= 0]
    targets = [tensors[index] for index in record.outputs]
    if record.code in OPERATORS and _wrong(tensors, record):
        return None  # tflite.py says why it is refused
    if record.code in _OF_SHAPES:
        shape = np.array(sources[0].shape)
        made = shape if record.code == "SHAPE" else np.array(shape.size)
        return _fitting([made.astype(targets[0].dtype)], targets)
    constants = [tensor.data for tensor in sources if tensor.data is not None]
    if len(constants) < len(record.inputs) or any(tensor.is_variable for tensor in sources):
        return None
    if record.code == "DEQUANTIZE":
        return _fitting([_real(sources[0])], targets)
    is_quantized = any(tensor.is_quantized for tensor in (*sources, *targets))
    return (
        None
        if is_quantized and record.code in _ARITHMETIC
        else _by_rule(constants, record, targets)
    )


def _by_rule(
    constants: Sequence[Array], record: OperatorRecord, targets: Sequence[TensorRecord]
) -> list[Array] | None:
    if record.code not in (*FOLDS, *_MANY):
        return None
    with np.errstate(all="ignore"):
        if record.code in _MANY:
            return _fitting(_MANY[record.code](constants, record.options, targets[0]), targets)
        result = FOLDS[record.code](constants, record.options, targets[0])
    return None if result is None else _fitting([result], targets)


def _wrong(tensors: Sequence[TensorRecord], record: OperatorRecord) -> bool:
    inputs = [tensors[index].dtype if index >= 0 else None for index in record.inputs]
    outputs = [tensors[index].dtype for index in record.outputs]
    return wrong_operator(record.code, record.options, inputs, outputs) is not None


def _fitting(made: Sequence[Array], targets: Sequence[TensorRecord]) -> list[Array] | None:
    pairs = zip(made, targets, strict=True)
    same = len(made) == len(targets) and all(
        (array.shape, array.dtype.name) == (target.shape, target.dtype) for array, target in pairs
    )
    return [np.ascontiguousarray(array).reshape(array.shape) for array in made] if same else None


def _real(record: TensorRecord) -> Array:
    """LiteRT multiplies in float32; float16 is only widened."""
    assert record.data is not None
    if record.scales is None or record.zero_points is None:
        return record.data.astype(np.float32)
    along = [1] * record.data.ndim
    if record.scales.size > 1:
        along[record.axis] = -1
    scales, zeros = (values.reshape(along or ()) for values in (record.scales, record.zero_points))
    return (record.data.astype(np.int32) - zeros).astype(np.float32) * scales


def _binary(compute: Callable[[Array, Array], Array]) -> _Rule:
    """With a clamp behind it where the file has one."""

    def rule(given: Sequence[Array], options: Options, target: TensorRecord) -> Array:
        made = np.asarray(compute(*given), target.dtype)
        low, high = _CLAMPS[options.get("fused_activation_function", 0)]
        return np.clip(made, low, high).astype(target.dtype) if low is not None else made

    return rule


#: Numbers of ActivationFunctionType that are taken.
_CLAMPS: Mapping[int, tuple[int | None, int | None]] = {
    0: (None, None),
    1: (0, None),
    2: (-1, 1),
    3: (0, 6),
}


def _quotient(a: Array, b: Array) -> Array:
    """Of integers towards zero, as C has it."""
    if np.issubdtype(a.dtype, np.floating):
        return np.asarray(a / b)
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _strided_slice(given: Sequence[Array], options: Options, target: TensorRecord) -> Array | None:
    """Of one axis, which is what shapes need, or of several without the masks that add axes."""
    source, begin, end, step = given
    if options["ellipsis_mask"] or options["new_axis_mask"] or options["offset"]:
        return None
    if begin.size > source.ndim or np.any(step == 0):
        return None
    places = list[slice | int]()
    for axis, (first, last, stride) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << axis
        if options["shrink_axis_mask"] & bit:
            if not -source.shape[axis] <= first < source.shape[axis]:
                return None
            places.append(int(first))
            continue
        low = None if options["begin_mask"] & bit else int(first)
        high = None if options["end_mask"] & bit else int(last)
        places.append(slice(low, high, int(stride)))
    return np.asarray(source[tuple(places)])


def _slice(given: Sequence[Array], options: Options, target: TensorRecord) -> Array:
    source, begin, _ = given
    ends = [int(first) + size for first, size in zip(begin, target.shape, strict=True)]
    return source[tuple(slice(int(first), last) for first, last in zip(begin, ends, strict=True))]


def _gather(given: Sequence[Array], options: Options, target: TensorRecord) -> Array | None:
    source, places = given
    axis = options["axis"]
    if options["batch_dims"] or not -source.ndim <= axis < source.ndim:
        return None
    inside = np.all((places >= 0) & (places < source.shape[axis]))
    return np.take(source, places, axis) if inside else None


def _reduced(compute: Callable[..., Array]) -> _Rule:
    def rule(given: Sequence[Array], options: Options, target: TensorRecord) -> Array | None:
        source, axes = given
        if not np.issubdtype(source.dtype, np.integer):
            return None  # sums of float32 depend on their order
        along = tuple(int(axis) for axis in axes.reshape(-1))
        made = compute(source, axis=along, keepdims=options["keep_dims"], dtype=source.dtype)
        return np.asarray(made)

    return rule


def _range(given: Sequence[Array], options: Options, target: TensorRecord) -> Array | None:
    """Of integers: LiteRT adds float32 steps one by one."""
    if not np.issubdtype(given[0].dtype, np.integer):
        return None
    return np.arange(*(number.reshape(-1)[0] for number in given), dtype=given[0].dtype)


def _moved(given: Sequence[Array], options: Options, target: TensorRecord) -> Array:
    return given[0].reshape(target.shape)


def _unpacked(given: Sequence[Array], options: Options, target: TensorRecord) -> list[Array]:
    moved = np.moveaxis(given[0], options["axis"], 0)
    return [np.asarray(part) for part in moved]


def _split(given: Sequence[Array], options: Options, target: TensorRecord) -> list[Array]:
    axis, source = int(given[0].reshape(-1)[0]), given[1]
    size = target.shape[axis]
    return np.split(source, range(size, source.shape[axis], size), axis) if size else []


#: Operators of one output.
FOLDS: Mapping[str, _Rule] = {
    "RESHAPE": _moved,
    "SQUEEZE": _moved,
    "EXPAND_DIMS": _moved,
    "TRANSPOSE": lambda given, _, target: np.transpose(given[0], given[1]),
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "GATHER": _gather,
    "PACK": lambda given, options, _: np.stack(given, options["axis"]),
    "CONCATENATION": lambda given, options, _: np.concatenate(given, options["axis"]),
    "TILE": lambda given, _, target: np.tile(given[0], given[1]),
    "BROADCAST_TO": lambda given, _, target: np.array(np.broadcast_to(given[0], target.shape)),
    "FILL": lambda given, _, target: np.full(target.shape, given[1].reshape(-1)[0]),
    "RANGE": _range,
    "CAST": lambda given, _, target: _cast(given[0], target.dtype),
    "ZEROS_LIKE": lambda given, _, target: np.zeros_like(given[0]),
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MUL": _binary(np.multiply),
    "DIV": _binary(_quotient),
    "FLOOR_DIV": _binary(np.floor_divide),
    "FLOOR_MOD": _binary(np.mod),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "NEG": lambda given, _, target: np.negative(given[0]),
    "ABS": lambda given, _, target: np.abs(given[0]),
    "REDUCE_PROD": _reduced(np.prod),
    "SUM": _reduced(np.sum),
    "SELECT_V2": lambda given, _, target: np.where(*given),
    "EQUAL": lambda given, _, target: np.equal(*given),
    "NOT_EQUAL": lambda given, _, target: np.not_equal(*given),
    "LESS": lambda given, _, target: np.less(*given),
    "LESS_EQUAL": lambda given, _, target: np.less_equal(*given),
    "GREATER": lambda given, _, target: np.greater(*given),
    "GREATER_EQUAL": lambda given, _, target: np.greater_equal(*given),
}
#: Operators of several outputs.
_MANY: Mapping[str, Callable[..., list[Array]]] = {"UNPACK": _unpacked, "SPLIT": _split}
#: Operators that read numbers, not only move them: of quantized ones they mean another thing.
_ARITHMETIC = tuple(
    code
    for code in FOLDS
    if code not in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE")
    and code not in ("STRIDED_SLICE", "SLICE", "GATHER", "TILE", "BROADCAST_TO")
)


def _cast(source: Array, dtype: str) -> Array | None:
    """None where C has no defined result."""
    if np.issubdtype(source.dtype, np.floating) and dtype not in ("float32", "float64", "bool"):
        limits = np.iinfo(dtype)
        if not np.all((source >= limits.min) & (source < limits.max)):
            return None
    return source.astype(dtype)
