# SPDX-License-Identifier: Apache-2.0
"""A part of a TFLite model: from some tensors to others.

In:   a TfliteFile, a Reading.
Out:  a TfliteFile with the operators between them.
Next: tflite.py converts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.reading import Reading
from loadstone.frontend.tflite_file import OperatorRecord, TfliteFile

__all__ = ["cut", "cut_hint"]


def cut(file: TfliteFile, name: str, reading: Reading) -> TfliteFile:
    """Raises ModelError for a tensor that is not there, UnsupportedError for sizes: a TFLite file
    has fixed ones."""
    if reading.shapes:
        raise UnsupportedError(f"{name}: a TFLite model has fixed sizes: --shape is for ONNX")
    inputs = _indices(file, name, reading.inputs) or file.inputs
    outputs = _indices(file, name, reading.outputs) or file.outputs
    wanted, kept = set(outputs) - set(inputs), list[OperatorRecord]()
    for operator in reversed(file.operators):
        if wanted.intersection(operator.outputs):
            kept.append(operator)
            wanted |= set(operator.inputs) - set(inputs)
    part = replace(file, inputs=inputs, outputs=outputs, operators=tuple(reversed(kept)))
    made = {index for operator in kept for index in operator.outputs} | set(inputs)
    for index in sorted(wanted - {-1}):
        if index not in made and file.tensors[index].data is None:
            raise ModelError(
                f'{name}: what is left needs "{short(file.tensors[index].name)}": name it with '
                "--inputs, too"
            )
    return part


def _indices(file: TfliteFile, name: str, names: Sequence[str]) -> tuple[int, ...]:
    found = {record.name: record.index for record in file.tensors if record.data is None}
    for wanted in names:
        if wanted not in found:
            raise ModelError(f'{name}: it has no tensor "{wanted}" that could be cut at')
    return tuple(found[wanted] for wanted in names)


def cut_hint(file: TfliteFile, operator: OperatorRecord) -> str:
    """How to do without an operator that nobody knows: what it reads becomes the result."""
    read = [file.tensors[index] for index in operator.inputs if index >= 0]
    names = dict.fromkeys(record.name for record in read if record.data is None)
    if not names:
        return "replace it in the model"
    where = " ".join(f"--outputs {name}" for name in names)
    return f"end the model before it ({where}) and compute it yourself"
