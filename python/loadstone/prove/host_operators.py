# SPDX-License-Identifier: Apache-2.0
"""Operators of integers that a step of the host holds as data: `loadstone.operator`.

In:   a step, its tensors, symbols of its input.
Out:  symbols of its output.
Next: host_steps.py calls it for external steps.

Only the description in the step counts (runtime/FORMAT.md): kind, fields, and of each tensor name,
shape, type, scale and zero point. What is not read here is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadstone.artifact.format import BufferView, HostStep
from loadstone.files import JsonValue, parsed_json
from loadstone.prove.fingerprints import Integers
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import softmax_litert, softmax_onnx
from loadstone.prove.verdict import NotProved, Unsupported

__all__ = ["computed"]

#: The number of the rounding of LiteRT's kernels and of ONNX Runtime's.
_LITERT, _ONNX = 0, 2


@dataclass(frozen=True)
class _Described:
    """A tensor as the step describes it; scale: a float32."""

    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


def computed(
    step: HostStep,
    x: Integers,
    inputs: Sequence[BufferView],
    outputs: Sequence[BufferView],
    rows: RowFunctions,
) -> Integers:
    """Symbols (elements,) of an operator's output. Raises Unsupported for an operator that is not
    known here, NotProved for a description that does not fit its tensors."""
    name = f"step {step.name} ({step.function})"
    if step.function != "loadstone.operator":
        raise Unsupported(f"{name}: code that only the host knows")
    said = parsed_json(step.attributes, name, NotProved)
    try:
        assert isinstance(said, dict)
        kind, fields, tensors = said["kind"], said["fields"], said["tensors"]
        assert isinstance(fields, dict)
        assert isinstance(tensors, list)
        if kind != "Softmax" or (len(inputs), len(outputs)) != (1, 1):
            raise Unsupported(f"{name}: operator {kind}")
        source, made = (_described(side) for side in tensors)
        rounding, beta = fields["rounding"], fields["beta"]
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise NotProved(f"{name}: its attributes describe no operator") from error
    for tensor, view in ((source, inputs[0]), (made, outputs[0])):
        fits = tensor.dtype == view.dtype.name.lower() and math.prod(tensor.shape) == view.elements
        if not fits or tensor.dtype != "int8":
            raise NotProved(f"{name}: it describes {tensor.dtype}{list(tensor.shape)}")
    flat = x.reshape(-1, source.shape[-1])
    if rounding == _ONNX and beta == 1:
        grids = [(tensor.scale, tensor.zero_point) for tensor in (source, made)]
        return softmax_onnx(rows, flat, *grids)
    if rounding == _LITERT and isinstance(beta, float):
        return softmax_litert(rows, flat, beta * source.scale)
    raise Unsupported(f"{name}: a softmax of rounding {rounding}, beta {beta}")


def _described(side: JsonValue) -> _Described:
    assert isinstance(side, list)
    (tensor,) = side
    assert isinstance(tensor, list)
    _, shape, dtype, grid = tensor
    assert isinstance(shape, list)
    assert isinstance(grid, list)
    scale, zero_point = grid
    assert isinstance(scale, float)
    assert float(np.float32(scale)) == scale
    assert isinstance(zero_point, int)
    assert isinstance(dtype, str)
    return _Described(tuple(int(str(n)) for n in shape), dtype, scale, zero_point)
