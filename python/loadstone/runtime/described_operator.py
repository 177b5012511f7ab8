# SPDX-License-Identifier: Apache-2.0
"""The operator that a step's attributes describe, with the type and range of each field checked.

In:   JSON from a file, and the arrays of the step's inputs.
Out:  a graph operator whose values are valid for their fields; a ValueError that names the field,
      its value and the valid ones.
Next: externals.py computes it with NumPy; step_source.py makes C of it.

The checks follow from the annotations of the operators: a new operator or field needs a line here
only if its limits are narrower than its type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np

from loadstone import graph as g
from loadstone.artifact.memory_plan import MAX_BYTES, MAX_RANK, DataType
from loadstone.files import JsonObject, JsonValue
from loadstone.graph.base import Fields
from loadstone.numerics import Array, Rounding

__all__ = ["described_operator"]

#: What one operator reads and writes at most: sums of 64 bits take eight times that.
_INPUT_BYTES, _OUTPUT_BYTES = 1 << 30, 256 << 20
_INT32 = range(-(1 << 31), 1 << 31)
#: Extents of windows, and distances in them.
_WINDOW = range(1, 1 << 16)
_PAD = range(1 << 16)
#: Field -> its numbers, where its type says too little.
_RANGES: Mapping[str, range] = MappingProxyType(
    {
        "kernel": _WINDOW,
        "strides": _WINDOW,
        "dilation": _WINDOW,
        "groups": _WINDOW,
        "padding": _PAD,
        "before": range(1 << 31),
        "after": range(1 << 31),
        "begin": range(1 << 31),
    }
)
#: Field -> axes of the first input; the second: no axis twice.
_AXES = {"axis": False, "axes": True, "permutation": True}
#: Fields of the operators that stand elsewhere in the description, or have no meaning in it.
_ELSEWHERE = ("inputs", "outputs")


def described_operator(attributes: str, inputs: Sequence[Array]) -> tuple[g.Operator, int]:
    """The operator, and how many of `inputs` (of any shape) are its inputs; its arrays are the
    others.

    Raises ValueError, and whatever an operator's own checks raise: the text is from a file.
    """
    said = _parsed(attributes)
    kind = _kind(said["kind"])
    sources, targets = (tuple(_tensor(t) for t in side) for side in said["tensors"])
    _check_tensors(sources, targets, inputs)
    rank = len(sources[0].shape) if sources else 0
    hints = _hints(kind)
    values = {k: _value(k, v, _hint(hints, k), rank) for k, v in dict(said["fields"]).items()}
    arrays = zip(said["arrays"], inputs[len(sources) :], strict=True)
    values.update({k: _array(k, a, _hint(hints, k)) for k, a in arrays})
    if "low" in values and "high" in values and not values["low"] <= values["high"]:
        raise ValueError(f"low={values['low']} is above high={values['high']}")
    return kind(inputs=sources, outputs=targets, **values), len(sources)


def _check_tensors(
    sources: Sequence[g.Tensor], targets: Sequence[g.Tensor], inputs: Sequence[Array]
) -> None:
    """Those of the step, and no more memory than one operator takes."""
    for tensor, array in zip(sources, inputs, strict=False):
        if (array.shape, array.dtype.name) != (tensor.shape, tensor.dtype):
            raise ValueError(f"{tensor.name} is {array.dtype.name} {array.shape}")
    sides = (sources, "inputs", _INPUT_BYTES), (targets, "outputs", _OUTPUT_BYTES)
    for side, what, most in sides:
        if sum(tensor.size_bytes for tensor in side) > most:
            raise ValueError(f"its {what} take more than {most >> 20} MiB")
    if len(inputs) < len(sources) or len(targets) != 1:
        raise ValueError(f"it has {len(inputs)} inputs and {len(targets)} outputs")


@lru_cache(maxsize=64)
def _parsed(attributes: str) -> JsonObject:
    """Read only: steps of one text share it."""
    said = json.loads(attributes)
    if not isinstance(said, dict):
        raise ValueError(f"a {type(said).__name__} is no description")
    return said


def _kind(name: JsonValue) -> type[g.Operator]:
    kind = getattr(g, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, g.Operator)) or kind is g.Host:
        raise ValueError(f"there is no operator {name!r}")
    return kind


def _hints(kind: type[g.Operator]) -> Mapping[str, object]:
    names = {entry.name for entry in fields(kind)} - set(_ELSEWHERE)
    here: Fields = {"IRModule": object}  # of Host, which is not described
    return {k: v for k, v in get_type_hints(kind, localns=here).items() if k in names}


def _hint(hints: Mapping[str, object], name: str) -> object:
    if name not in hints:
        raise ValueError(f"there is no field {name!r}")
    return hints[name]


# --- fields ---------------------------------------------------------------------------------------
def _value(name: str, value: JsonValue, hint: object, rank: int) -> JsonValue:
    """One field, of its type and in its range."""
    if get_origin(hint) is tuple:
        return _numbers(name, value, get_args(hint), rank)
    if get_origin(hint) is Literal and isinstance(value, str) and value in get_args(hint):
        return value
    if hint is Rounding and _is_int(value) and value in list(Rounding):
        return Rounding(value)
    if hint in _SIMPLE and _SIMPLE[hint](value):
        if hint is float and math.isinf(value) and name not in ("low", "high"):
            raise ValueError(f"{name}={value} is not finite")
        return _ranged(name, value, rank) if hint is int else value
    raise ValueError(f"{name}={value!r} is no {getattr(hint, '__name__', hint)}")


def _is_int(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: JsonValue) -> bool:
    """A number; infinite ones too, which limits of a clamp may be."""
    return isinstance(value, float) and not math.isnan(value)


#: What JSON must hold for a field of a type.
_SIMPLE: Mapping[object, Callable[[JsonValue], bool]] = MappingProxyType(
    {
        int: _is_int,
        float: _is_float,
        bool: lambda value: isinstance(value, bool),
        str: lambda value: isinstance(value, str),
    }
)


def _numbers(name: str, value: JsonValue, hints: Sequence[object], rank: int) -> tuple[int, ...]:
    """A tuple of integers: of its length, or one for each axis at most."""
    length = len(hints) if Ellipsis not in hints else None
    if not isinstance(value, list) or not all(map(_is_int, value)) or len(value) > MAX_RANK:
        raise ValueError(f"{name}={value!r} is no list of integers")
    if length is not None and len(value) != length:
        raise ValueError(f"{name}={value!r} has not {length} numbers")
    if _AXES.get(name) and len(set(value)) != len(value):
        raise ValueError(f"{name}={value!r} names an axis twice")
    return tuple(_ranged(name, number, rank) for number in value)


def _ranged(name: str, value: int, rank: int) -> int:
    allowed = range(rank) if name in _AXES else _RANGES.get(name, _INT32)
    if value not in allowed:
        raise ValueError(f"{name}={value} is outside [{allowed.start}, {allowed.stop - 1}]")
    return value


def _array(name: str, array: Array, hint: object) -> Array:
    """An array of the field's element type."""
    if get_origin(hint) is not np.ndarray:
        raise ValueError(f"{name} is no array")
    wanted = np.dtype(get_args(get_args(hint)[1])[0])
    if array.dtype != wanted:
        raise ValueError(f"{name} is {array.dtype.name}, not {wanted.name}")
    return np.array(array)


# --- tensors --------------------------------------------------------------------------------------
def _tensor(entry: JsonValue) -> g.Tensor:
    name, shape, dtype, quantization = entry
    known = {kind.name.lower() for kind in DataType}
    if not isinstance(name, str) or dtype not in known or not isinstance(shape, list):
        raise ValueError(f"{entry!r} is no tensor")
    extents = all(_is_int(d) and 1 <= d <= MAX_BYTES for d in shape)
    if not extents or len(shape) > MAX_RANK or math.prod(shape) > MAX_BYTES:
        raise ValueError(f"{shape!r} is no shape")
    return g.Tensor(name, tuple(shape), dtype, _quantization(quantization, dtype))


def _quantization(entry: JsonValue, dtype: str) -> g.Quantization | None:
    if entry is None:
        return None
    scale, zero_point = entry
    limits = np.iinfo(dtype)  # quantized numbers are integers
    sound = isinstance(scale, float) and math.isfinite(scale) and scale > 0
    if not sound or not _is_int(zero_point) or not limits.min <= zero_point <= limits.max:
        raise ValueError(f"{entry!r} is no quantization of {dtype}")
    return g.Quantization(scale, zero_point)
