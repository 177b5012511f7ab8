# SPDX-License-Identifier: Apache-2.0
"""An ONNX model before it is imported: external tensors, sizes, the part that is asked for,
functions that the file defines.

In:   the bytes of an .onnx file, a Reading.
Out:  a model in one piece, its inputs' sizes fixed.
Next: folding.py computes what can be computed now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx
import onnx.inliner
import onnx.utils
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import one_line
from loadstone.frontend.reading import Reading

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["input_shapes", "read"]


def read(data: bytes, name: str, reading: Reading) -> ModelProto:
    """The model, external tensors in it. Raises ModelError, `name` before the message."""
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{name}: not an ONNX file: {one_line(error)}") from error
    outside = [t for t in _tensors(model) if t.data_location == onnx.TensorProto.EXTERNAL]
    if outside:
        _load_external(model, outside[0], name, reading)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return _part(model, name, reading) if reading.inputs or reading.outputs else model


def _tensors(model: ModelProto) -> list[onnx.TensorProto]:
    values = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    return [*model.graph.initializer, *values]


def _load_external(model: ModelProto, first: onnx.TensorProto, name: str, reading: Reading) -> None:
    place = next((e.value for e in first.external_data if e.key == "location"), "")
    if reading.folder is None:
        raise UnsupportedError(
            f'{name}: tensor "{first.name}" lies in another file, {place}: load the model by its '
            "path"
        )
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(reading.folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f'{name}: tensor "{first.name}" lies in the file {place} beside the model, which '
            f"cannot be read: {one_line(error)}"
        ) from error


def _part(model: ModelProto, name: str, reading: Reading) -> ModelProto:
    """From some tensors to others."""
    known = {out for node in model.graph.node for out in node.output}
    known |= {entry.name for entry in model.graph.input}
    for wanted in (*reading.inputs, *reading.outputs):
        if wanted not in known:
            raise ModelError(f'{name}: it has no tensor "{wanted}" that could be cut at')
    own = {tensor.name for tensor in model.graph.initializer}
    inputs = reading.inputs or [e.name for e in model.graph.input if e.name not in own]
    outputs = reading.outputs or [e.name for e in model.graph.output]
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return onnx.utils.Extractor(inferred).extract_model(list(inputs), list(outputs))
    except Exception as error:
        raise ModelError(
            f"{name}: it cannot be cut from {', '.join(inputs)} to {', '.join(outputs)}: "
            f"{one_line(error)}"
        ) from error


def input_shapes(model: ModelProto, name: str, reading: Reading) -> dict[str, list[int]]:
    """The sizes of every input, written into the model: its own, those of `reading`, 1 for an open
    first one. Raises UnsupportedError asking for what is still open."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    for wanted in reading.shapes:
        if wanted not in {entry.name for entry in inputs}:
            names = ", ".join(entry.name for entry in inputs)
            raise ModelError(f'{name}: it has no input "{wanted}" to give a shape; it has {names}')
    shapes = {}
    for entry in inputs:
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
            raise UnsupportedError(f'{name}: input "{entry.name}" has no static tensor shape')
        shapes[entry.name] = _fixed(entry, name, reading.shapes.get(entry.name))
    if not model.graph.output:
        raise ModelError(f"{name}: the graph has no output: export one that gives its result")
    return shapes


def _fixed(entry: onnx.ValueInfoProto, name: str, said: tuple[int, ...] | None) -> list[int]:
    """The sizes of one input."""
    dimensions = entry.type.tensor_type.shape.dim
    _check_dimensions(entry, name, said)
    own = [int(d.dim_value) if d.dim_value > 0 else None for d in dimensions]
    wanted = said if said is not None else [1, *(0 for _ in own[1:])]  # 0: nobody knows
    extents = []
    for axis, size in enumerate(own):
        other = wanted[axis]
        if size is None and other == 0:
            raise _open_size(entry, name, axis, own)
        if size is not None and said is not None and other != size:
            raise ModelError(
                f'{name}: input "{entry.name}" has {size} in dimension {axis}, not {other}'
            )
        extents.append(other if size is None else size)
        dimensions[axis].dim_value = extents[axis]
    return extents


def _check_dimensions(entry: onnx.ValueInfoProto, name: str, said: tuple[int, ...] | None) -> None:
    dimensions = entry.type.tensor_type.shape.dim
    if said is not None and len(said) != len(dimensions):
        raise ModelError(
            f'{name}: input "{entry.name}" has {len(dimensions)} dimensions, not {len(said)}'
        )
    if any(d.HasField("dim_value") and d.dim_value == 0 for d in dimensions):
        raise UnsupportedError(
            f'{name}: input "{entry.name}" has a dimension of 0 and so no elements: export the '
            "model without it, or with the size that it has"
        )


def _open_size(
    entry: onnx.ValueInfoProto, name: str, axis: int, own: Sequence[int | None]
) -> UnsupportedError:
    """What to say for a size that the file leaves open."""
    dimensions = entry.type.tensor_type.shape.dim
    texts = [str(size or d.dim_param or "?") for size, d in zip(own, dimensions, strict=True)]
    sizes = [str(size or "N") for size in own]
    example = ",".join([str(own[0] or 1), *sizes[1:]])
    return UnsupportedError(
        f'{name}: input "{entry.name}" is ({", ".join(texts)}), and dimension {axis} is '
        f"open: say its size, --shape {entry.name}={example}"
    )
