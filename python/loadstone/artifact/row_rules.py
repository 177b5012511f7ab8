# SPDX-License-Identifier: Apache-2.0
"""When a host step on rows of a decoder is sound (R20 of runtime/FORMAT.md).

In:   tensors of the memory plan, and parameters by name.
Out:  for each operator "" or what is wrong.
Next: host_operators.py has them in its table; runtime/steps_rows.c says the same in C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from loadstone.artifact.memory_plan import BufferView, DataType, ViewLayout

__all__ = [
    "attention_rule",
    "gate_rule",
    "keep_rows_rule",
    "quantize_rows_rule",
    "rescale_rows_rule",
    "rms_norm_rule",
    "rotate_places_rule",
    "row_scales_rule",
]

_Tensors = Sequence[BufferView]
_Parameters = Mapping[str, int]
_FLOAT, _INT8, _INT32 = DataType.FLOAT32, DataType.INT8, DataType.INT32
_INFINITE = 0x7F800000  # as bits of a float32
_TURN = 64  # of the Hadamard matrix
#: How often a sum's bytes stand in a row: 0 as int32, 1 as int8, else planes of bytes.
_PLANES = (0, 1, 3, 4)


def _types(tensors: _Tensors, *wanted: DataType) -> str:
    """Whether they are of these types, row-major."""
    for tensor, dtype in zip(tensors, wanted, strict=True):
        if tensor.dtype != dtype or tensor.layout != ViewLayout.ROW_MAJOR:
            return f"{tensor.name!r} is not {dtype.name.lower()} and row-major"
    return ""


def _rows(tensor: BufferView, *sizes: int) -> int:
    """Rows of so many elements; 0 where they do not divide."""
    row = prod(sizes)
    return 0 if row == 0 or tensor.elements % row else tensor.elements // row


def _not_place(tensor: BufferView) -> str:
    return "" if tensor.elements == 2 else f"{tensor.name!r} is no position and number of rows"


def _not_elements(tensor: BufferView, wanted: int) -> str:
    if tensor.elements == wanted:
        return ""
    return f"{tensor.name!r} has {tensor.elements} elements, not {wanted}"


def rms_norm_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """x, weights -> y"""
    (x, weights), y = inputs, outputs[0]
    if wrong := _types([x, weights, y], _FLOAT, _FLOAT, _FLOAT):
        return wrong
    if not _rows(y, p["depth"]) or p["epsilon"] >= _INFINITE:
        return f"depth={p['depth']} does not divide, or epsilon={p['epsilon']} is not finite"
    return _not_elements(x, y.elements) or _not_elements(weights, p["depth"])


def rotate_places_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """x, place, angles -> y"""
    (x, place, angles), y = inputs, outputs[0]
    if wrong := _types([x, place, angles, y], _FLOAT, _INT32, _FLOAT, _FLOAT):
        return wrong
    if not _rows(y, p["heads"], p["size"]) or not _rows(angles, p["turned"]):
        return f"heads={p['heads']}, size={p['size']} or turned={p['turned']} does not divide"
    if p["turned"] % 2 or p["turned"] > p["size"] or p["neighbours"] > 1:
        return f"turned={p['turned']} or neighbours={p['neighbours']} is outside its range"
    return _not_place(place) or _not_elements(x, y.elements)


def _not_rows(x: BufferView, scales: BufferView, p: _Parameters) -> str:
    if p["rotate"] > 1 or (p["rotate"] and p["depth"] % _TURN):
        return f"rotate={p['rotate']} is outside [0, 1], or depth={p['depth']} no multiple of 64"
    rows = _rows(x, p["depth"])
    return f"depth={p['depth']} does not divide" if not rows else _not_elements(scales, rows)


def row_scales_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """x -> scales"""
    x, scales = inputs[0], outputs[0]
    return _types([x, scales], _FLOAT, _FLOAT) or _not_rows(x, scales, p)


def quantize_rows_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """x, scales -> y"""
    (x, scales), y = inputs, outputs[0]
    wrong = _types([x, scales, y], _FLOAT, _FLOAT, _INT8)
    return wrong or _not_rows(x, scales, p) or _not_elements(y, x.elements)


def rescale_rows_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """x, scales of rows, scales of channels -> y"""
    (x, scales, channels), y = inputs, outputs[0]
    stored = _INT8 if p["planes"] else _INT32
    if wrong := _types([x, scales, channels, y], stored, _FLOAT, _FLOAT, _FLOAT):
        return wrong
    if p["planes"] not in _PLANES:
        return f"planes={p['planes']} is not one of {_PLANES}"
    wrong = _not_elements(channels, p["channels"])
    if wrong or _rows(y, p["channels"]) != scales.elements:
        return wrong or f"channels={p['channels']} does not divide"
    if p["planes"] < 2:
        return _not_elements(x, y.elements)
    each = _rows(x, scales.elements, p["planes"])
    return "" if each >= p["channels"] else f"a plane has {each} channels, not {p['channels']}"


def keep_rows_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """x, place -> cache"""
    (x, place), y = inputs, outputs[0]
    if wrong := _types([x, place, y], y.dtype, _INT32, y.dtype):
        return wrong
    if not all(_rows(tensor, p["groups"], p["size"]) for tensor in (x, y)):
        return f"groups={p['groups']} or size={p['size']} does not divide"
    return _not_place(place)


def attention_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """queries, place, keys, their scales, values, their scales -> y, scratch memory"""
    queries, place, keys, key_scales, values, value_scales = inputs
    y, scratch = outputs
    kinds = (_FLOAT, _INT32, _INT8, _FLOAT, _INT8, _FLOAT, _FLOAT, _FLOAT)
    if wrong := _types([*inputs, *outputs], *kinds):
        return wrong
    places = _rows(keys, p["groups"], p["size"])
    if not places or not p["heads"] or p["heads"] % p["groups"]:
        return f"heads={p['heads']}, groups={p['groups']} or size={p['size']} does not divide"
    if not _rows(queries, p["heads"], p["size"]) or p["factor"] >= _INFINITE:
        return f"heads={p['heads']} does not divide, or factor={p['factor']} is not finite"
    wrong = _not_place(place) or _not_elements(y, queries.elements)
    wrong = wrong or _not_elements(values, keys.elements)
    for scales in (key_scales, value_scales):
        wrong = wrong or _not_elements(scales, places * p["groups"])
    return wrong or ("" if scratch.elements >= places else "the scratch memory is too small")


def gate_rule(inputs: _Tensors, outputs: _Tensors, p: _Parameters) -> str:
    """gate, x -> y"""
    (gate, x), y = inputs, outputs[0]
    if wrong := _types([gate, x, y], _FLOAT, _FLOAT, _FLOAT):
        return wrong
    if p["function"] > 1:
        return f"function={p['function']} is outside [0, 1]"
    return _not_elements(gate, y.elements) or _not_elements(x, y.elements)
