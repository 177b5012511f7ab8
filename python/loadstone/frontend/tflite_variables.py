# SPDX-License-Identifier: Apache-2.0
"""Variables of a TFLite model: handles, and what they hold before the first run.

In:   a TfliteFile whose handles have no type, and the bytes it was read from.
Out:  the file with one tensor for each variable: every operator that named it by a handle names
      that tensor.
Next: tflite.py makes an input and an output of each variable that is written.

VAR_HANDLE names a variable by a text; READ_VARIABLE and ASSIGN_VARIABLE say its shape and type.
CALL_ONCE names a subgraph that assigns the first values, which must be constants.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.tflite_file import RESOURCE, OperatorRecord, TensorRecord, TfliteFile, read
from loadstone.numerics import Array

__all__ = ["described", "resolved", "states_of"]


def resolved(file: TfliteFile, data: bytes, name: str) -> TfliteFile:
    """data: of the file. Raises UnsupportedError for a variable whose first value is computed, and
    ModelError for handles that name none."""
    _check_plain(file, name)
    file = replace(file, tensors=tuple(_begun(tensor) for tensor in file.tensors))
    handles = _handles(file)
    if not any(tensor.dtype == RESOURCE for tensor in file.tensors):
        return file
    first: dict[str, int] = {}
    for index, variable in handles.items():
        first.setdefault(variable, index)
    begins = _begins(file, data, name)
    tensors = list(file.tensors)
    for variable, index in first.items():
        same = [k for k, named in handles.items() if named == variable]
        begin = begins.get(variable)
        value = _checked_value(file, same, begin, variable, name)
        tensors[index] = replace(value, index=index, name=variable, data=begin, is_variable=True)
    alias = {index: first[variable] for index, variable in handles.items()}
    operators = tuple(
        replace(record, inputs=tuple(alias.get(index, index) for index in record.inputs))
        for record in file.operators
    )
    known = replace(file, tensors=tuple(tensors), operators=operators)
    _check_named(known, name)
    return known


def states_of(file: TfliteFile) -> tuple[int, ...]:
    """The variables that operators read or write, as indices of tensors."""
    read_ = dict.fromkeys(index for record in file.operators for index in record.inputs)
    return tuple(k for k in read_ if k >= 0 and file.tensors[k].is_variable)


def described(file: TfliteFile, states: tuple[int, ...]) -> list[str]:
    """As reading.STATES says: they come behind the model's own inputs and outputs."""
    return [
        json.dumps(
            {
                "input": len(file.inputs) + place,
                "output": len(file.outputs) + place,
                "begin": "" if (data := file.tensors[index].data) is None else data.tobytes().hex(),
            }
        )
        for place, index in enumerate(states)
    ]


def _check_plain(file: TfliteFile, name: str) -> None:
    for tensor in file.tensors:
        if tensor.is_variable and tensor.data is not None:
            raise UnsupportedError(
                f'{name}: tensor "{short(tensor.name)}" is a variable with data: LiteRT has none'
            )


def _begun(tensor: TensorRecord) -> TensorRecord:
    """LiteRT fills a state of int8 with its zero point, any other with zero bytes."""
    if not (tensor.is_variable and tensor.dtype == "int8" and tensor.zero_points is not None):
        return tensor
    return replace(tensor, data=np.full(tensor.shape, tensor.zero_points[0], np.int8))


def _checked_value(
    file: TfliteFile, handles: list[int], begin: Array | None, variable: str, name: str
) -> TensorRecord:
    """What is read from a variable or written to it, of the shape and type that it begins with."""
    value = _value(file, handles)
    if value is None:
        raise ModelError(f'{name}: damaged TFLite file: nobody uses its variable "{variable}"')
    if begin is not None and (begin.shape, begin.dtype.name) != (value.shape, value.dtype):
        raise ModelError(
            f'{name}: variable "{short(variable)}" begins as {begin.dtype} {list(begin.shape)} '
            f"and is read as {value.dtype} {list(value.shape)}"
        )
    return value


def _check_named(file: TfliteFile, name: str) -> None:
    for record in file.operators:
        for index in record.inputs:
            if index >= 0 and file.tensors[index].dtype == RESOURCE:
                raise ModelError(f"{name}: {file.describe(record)}: its handle names no variable")


def _handles(file: TfliteFile) -> dict[int, str]:
    """Tensors of VAR_HANDLE -> the name of the variable."""
    found = {}
    for record in file.operators:
        if record.code == "VAR_HANDLE":
            texts = (record.options["container"], record.options["shared_name"])
            found[record.outputs[0]] = "/".join(text for text in texts if text)
    return found


def _value(file: TfliteFile, handles: list[int]) -> TensorRecord | None:
    """A tensor that is read from the variable, or written to it."""
    for record in file.operators:
        if record.inputs[:1] and record.inputs[0] in handles:
            if record.code == "READ_VARIABLE":
                return file.tensors[record.outputs[0]]
            if record.code == "ASSIGN_VARIABLE" and len(record.inputs) > 1:
                return file.tensors[record.inputs[1]]
    return None


def _begins(file: TfliteFile, data: bytes, name: str) -> dict[str, Array]:
    """Variables that a subgraph of CALL_ONCE assigns, and what."""
    found = {}
    for record in file.operators:
        if record.code != "CALL_ONCE":
            continue
        called = read(data, name, record.options["init_subgraph_index"])
        handles = _handles(called)
        for inner in called.operators:
            if inner.code == "ASSIGN_VARIABLE":
                found[handles[inner.inputs[0]]] = _first_value(called, inner, name)
            elif inner.code != "VAR_HANDLE":
                raise UnsupportedError(
                    f"{name}: {called.describe(inner)} computes what a variable begins with: only "
                    "a constant is known there"
                )
    return found


def _first_value(file: TfliteFile, record: OperatorRecord, name: str) -> Array:
    value = file.tensors[record.inputs[1]].data
    if value is None:
        raise UnsupportedError(f"{name}: {file.describe(record)} assigns what is no constant")
    return np.array(value)
