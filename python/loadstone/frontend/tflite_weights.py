# SPDX-License-Identifier: Apache-2.0
"""Weights of a TFLite file whose scale is 0: channels that a quantizer found dead.

In:   a TfliteFile as tflite_file.py reads it.
Out:  the same network, in which every scale is positive.
Next: tflite.py converts it.

LiteRT multiplies the sums of such a channel by 0, whatever its weights and its bias: its output is
the zero point. Integers of 0 with any scale are the same, and everything behind this file may
divide by scales.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.frontend.message import short
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile
from loadstone.frontend.tflite_kernels import OPERANDS
from loadstone.numerics import Array

__all__ = ["with_positive_scales"]


def with_positive_scales(file: TfliteFile, name: str) -> TfliteFile:
    """Raises ModelError for a scale of 0 elsewhere, and for a bias that two operators read whose
    dead channels differ."""
    tensors = list(file.tensors)
    cleared: dict[int, Array] = {}
    for record in file.operators:
        dead = _dead(file, record)
        if dead is None:
            continue
        weights, bias_place = _places(record)
        tensors[record.inputs[weights]] = _revived(file.tensors[record.inputs[weights]])
        for index in record.inputs[bias_place : bias_place + 1]:
            bias = file.tensors[index].data if index >= 0 else None
            if bias is None:
                continue
            silent = np.where(np.resize(dead, bias.shape), 0, bias).astype(bias.dtype)
            if not np.array_equal(cleared.setdefault(index, silent), silent):
                called = short(file.tensors[index].name)
                raise ModelError(
                    f'{name}: {file.describe(record)}: its bias "{called}" belongs to another '
                    "operator, too, whose weights have other scales of 0"
                )
            tensors[index] = _without_zeros(replace(file.tensors[index], data=silent))
    used = {index for record in file.operators for index in (*record.inputs, *record.outputs)}
    checked = (_checked(tensor, name) if tensor.index in used else tensor for tensor in tensors)
    return replace(file, tensors=tuple(checked))


def _dead(file: TfliteFile, record: OperatorRecord) -> NDArray[np.bool_] | None:
    """Which output channels have weights of scale 0; also of an operator with none, whose bias may
    be another one's, False for each."""
    place, _ = _places(record)
    if not record.inputs[place:] or record.inputs[place] < 0:
        return None
    weights = file.tensors[record.inputs[place]]
    if weights.scales is None or weights.data is None:
        return None
    return np.asarray(weights.scales == 0)


def _places(record: OperatorRecord) -> tuple[int, int]:
    """Where weights and bias are among the inputs; behind the last one for what has none."""
    none = len(record.inputs)
    if record.code == "DEQUANTIZE":
        return 0, none
    return (1, OPERANDS[record.code].bias) if record.code in OPERANDS else (none, none)


def _revived(weights: TensorRecord) -> TensorRecord:
    """The zero point, under a scale of 1, where the scale was 0."""
    assert weights.data is not None
    assert weights.scales is not None
    assert weights.zero_points is not None
    if not np.any(weights.scales == 0):
        return weights
    along = [1] * weights.data.ndim
    if weights.scales.size > 1:
        along[weights.axis] = -1
    dead, zeros = (
        values.reshape(along or -1) for values in (weights.scales == 0, weights.zero_points)
    )
    data = np.where(dead, zeros, weights.data).astype(weights.data.dtype)
    return _without_zeros(replace(weights, data=data.reshape(weights.shape)))


def _without_zeros(record: TensorRecord) -> TensorRecord:
    if record.scales is None:
        return record
    return replace(record, scales=np.where(record.scales == 0, np.float32(1), record.scales))


def _checked(record: TensorRecord, name: str) -> TensorRecord:
    """Old converters gave a single scale of 0 to what is not quantized."""
    if record.scales is None or np.all(record.scales > 0):
        return record
    if record.scales.size == 1:
        return replace(record, scales=None, zero_points=None)
    raise ModelError(
        f'{name}: damaged TFLite file: "{short(record.name)}" has a scale that is not positive, '
        "and it is no operator's weights"
    )
