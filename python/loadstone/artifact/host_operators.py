# SPDX-License-Identifier: Apache-2.0
"""The operators of the host: their codes, their parameters, and what each asks of its tensors.

In:   tensors of the memory plan, and parameters by name.
Out:  OPERATORS, the table of runtime/FORMAT.md; each rule gives "" or what is wrong (R20).
Next: host_step.py checks its steps with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from loadstone.artifact import row_rules as rows
from loadstone.artifact.memory_plan import MAX_RANK, BufferView, DataType, ViewLayout

__all__ = [
    "BROADCAST_PARAMETERS",
    "COPY_PARAMETERS",
    "LOWEST",
    "OPERATORS",
    "PACK_PARAMETERS",
    "HostOpcode",
    "OperatorSpec",
]


class HostOpcode(IntEnum):
    """Values of a step's operator; 0 is a device program."""

    COPY = 1
    FILL = 2
    PACK = 3
    UNPACK = 4
    QUANTIZE = 5
    DEQUANTIZE = 6
    LOOKUP = 7
    SOFTMAX_INT8 = 8
    SOFTMAX_FLOAT32 = 9
    ARGMAX = 10
    EXP_FLOAT32 = 11  # from here on since version 4
    LOG_FLOAT32 = 12
    SQRT_FLOAT32 = 13
    RSQRT_FLOAT32 = 14
    TANH_FLOAT32 = 15
    SIGMOID_FLOAT32 = 16
    ERF_FLOAT32 = 17
    ADD_FLOAT32 = 18
    SUBTRACT_FLOAT32 = 19
    MULTIPLY_FLOAT32 = 20
    DIVIDE_FLOAT32 = 21
    MAXIMUM_FLOAT32 = 22
    MINIMUM_FLOAT32 = 23
    POWER_FLOAT32 = 24
    SUM_FLOAT32 = 25
    MATMUL_FLOAT32 = 26
    GATHER = 27
    RMS_NORM = 28  # from here on since version 6
    ROTATE_PLACES = 29
    ROW_SCALES = 30
    QUANTIZE_ROWS = 31
    RESCALE_ROWS = 32
    KEEP_ROWS = 33
    ATTENTION = 34
    GATE = 35
    EXTERNAL = 255


Tensors = Sequence[BufferView]
Parameters = Mapping[str, int]
_INT8 = (DataType.INT8, DataType.UINT8)
#: Least values of parameters that may be negative.
LOWEST = {"pad_value": -128, "low": -(1 << 31), "high": -(1 << 31), "diff_min": -(1 << 31)}
_MAX_SOFTMAX_DEPTH = 4096


def _row_major(*tensors: BufferView) -> bool:
    return all(t.layout == ViewLayout.ROW_MAJOR for t in tensors)


def _copy_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    size = x.dtype.size_bytes
    if size != y.dtype.size_bytes:
        return "x and y have elements of different size"
    extents = [p[f"extent_{k}"] for k in range(MAX_RANK)]
    if min(extents) < 1 or math.prod(extents) > y.size_bytes // size:
        return f"extents {extents} are not 1 to the {y.size_bytes // size} elements of y"
    for tensor, side in ((x, "in"), (y, "out")):
        last = p[f"{side}_offset"] + sum(
            (extents[k] - 1) * p[f"{side}_stride_{k}"] for k in range(MAX_RANK)
        )
        if last >= tensor.size_bytes // size:
            return (
                f"it reaches element {last} of {tensor.name!r}, which has "
                f"{tensor.size_bytes // size}"
            )
    return ""


def _fill_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    return "" if p["value"] <= 255 else f"value={p['value']} is no byte"


def _not_packable(rows: BufferView, blocks: BufferView, row: str, block: str) -> str:
    """Whether pack and unpack change one into the other; row, block: what the format calls them."""
    if not _row_major(rows) or blocks.layout != ViewLayout.BLOCKED:
        return f"{row} is not row-major, or {block} not blocked"
    if (rows.dtype, blocks.dtype) == (DataType.FLOAT32, DataType.BFLOAT16):
        return ""
    if rows.dtype not in _INT8 or blocks.dtype != DataType.INT8:
        return f"{row} and {block} are not int8 or uint8 and int8, nor float32 and bfloat16"
    return ""


def _pack_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if wrong := _not_packable(x, y, "x", "y"):
        return wrong
    if min(p[k] for k in ("h", "w", "c", "kernel_h", "kernel_w", "stride_h", "stride_w")) < 1:
        return "a size, kernel or stride is 0"
    if p["pad_value"] > 127 or p["nchw"] > 1 or (p["pad_value"] and x.dtype not in _INT8):
        return f"pad_value={p['pad_value']} or nchw={p['nchw']} is outside its range"
    n, out_h, out_w, out_c = y.shape
    if x.elements != n * p["h"] * p["w"] * p["c"]:
        return f"x has {x.elements} elements, not {n} x {p['h']} x {p['w']} x {p['c']}"
    if out_c != p["kernel_h"] * p["kernel_w"] * p["c"]:
        return f"y has {out_c} channels, not {p['kernel_h']} x {p['kernel_w']} x {p['c']}"
    if (out_h - 1) * p["stride_h"] >= p["pad_top"] + p["h"] or (out_w - 1) * p["stride_w"] >= p[
        "pad_left"
    ] + p["w"]:
        return "a window begins behind the end of the image"
    return ""


def _unpack_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if x.dtype == y.dtype == DataType.INT32 and x.layout == ViewLayout.BLOCKED and _row_major(y):
        wrong = f"nchw={p['nchw']} of int32 is not 0" if p["nchw"] else ""
    else:
        wrong = _not_packable(y, x, "y", "x")
    if wrong:
        return wrong
    if y.elements != x.elements:
        return f"y has {y.elements} elements, not {x.elements}"
    return "" if p["nchw"] <= 1 else f"nchw={p['nchw']} is outside [0, 1]"


def _same(x: BufferView, y: BufferView) -> bool:
    return _row_major(x, y) and x.elements == y.elements


def _quantize_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if x.dtype != DataType.FLOAT32 or y.dtype not in _INT8 or not _same(x, y):
        return "x is not float32, or y not int8 or uint8, or their elements differ"
    if not (y.scale > 0 and math.isfinite(y.scale)):
        return f"y's scale {y.scale} is not finite and > 0"
    least = -128 if y.dtype == DataType.INT8 else 0
    if not least <= y.zero_point <= least + 255:
        return f"y's zero point {y.zero_point} is outside [{least}, {least + 255}]"
    if not least <= p["low"] <= p["high"] <= least + 255 or p["half_to_even"] > 1:
        return (
            f"low={p['low']}, high={p['high']} or half_to_even={p['half_to_even']} is "
            "outside its range"
        )
    return ""


def _dequantize_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    sound = x.dtype in (*_INT8, DataType.INT32) and y.dtype == DataType.FLOAT32 and _same(x, y)
    return (
        "" if sound else "x is not int8, uint8 or int32, or y not float32, or their elements differ"
    )


def _lookup_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, table, y = inputs[0], inputs[1], outputs[0]
    if x.dtype not in _INT8 or not _same(x, y):
        return "x is not int8 or uint8, or the elements of x and y differ"
    if (
        table.elements != 256
        or table.dtype.size_bytes != y.dtype.size_bytes
        or not _row_major(table)
    ):
        return "the table has not 256 elements as large as y's"
    return ""


def _softmax_int8_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if x.dtype not in _INT8 or y.dtype != x.dtype or not _same(x, y):
        return "x and y are not of one type, int8 or uint8, or their elements differ"
    if not 1 <= p["depth"] <= _MAX_SOFTMAX_DEPTH or x.elements % p["depth"]:
        return (
            f"depth={p['depth']} is not in [1, {_MAX_SOFTMAX_DEPTH}] or does not divide "
            f"{x.elements}"
        )
    if p["left_shift"] > 31 or p["diff_min"] > 0:
        return f"left_shift={p['left_shift']} or diff_min={p['diff_min']} is outside its range"
    return ""


def _softmax_float32_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if x.dtype != DataType.FLOAT32 or y.dtype != DataType.FLOAT32 or not _same(x, y):
        return "x or y is not float32, or their elements differ"
    return (
        ""
        if p["depth"] >= 1 and x.elements % p["depth"] == 0
        else f"depth={p['depth']} does not divide {x.elements}"
    )


def _argmax_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if (
        x.dtype not in _INT8
        or y.dtype not in (DataType.INT32, DataType.INT64)
        or not _row_major(x, y)
    ):
        return "x is not int8 or uint8, or y not int32 or int64"
    return (
        ""
        if p["depth"] >= 1 and x.elements == y.elements * p["depth"]
        else f"x has not {p['depth']} x {y.elements} elements"
    )


def _not_float(*tensors: BufferView) -> str:
    if _row_major(*tensors) and all(t.dtype == DataType.FLOAT32 for t in tensors):
        return ""
    return "a tensor is not float32 and row-major"


def _unary_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if wrong := _not_float(x, y):
        return wrong
    return "" if x.elements == y.elements else f"y has {y.elements} elements, not {x.elements}"


def _binary_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    (a, b), y = inputs, outputs[0]
    if wrong := _not_float(a, b, y):
        return wrong
    extents = [p[f"extent_{k}"] for k in range(MAX_RANK)]
    if min(extents) < 1 or math.prod(extents) != y.elements:
        return f"extents {extents} are not the {y.elements} elements of y"
    for tensor, side in ((a, "a"), (b, "b")):
        last = sum((extents[k] - 1) * p[f"{side}_stride_{k}"] for k in range(MAX_RANK))
        if last >= tensor.elements:
            return f"it reaches element {last} of {tensor.name!r}, which has {tensor.elements}"
    return ""


def _sum_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    x, y = inputs[0], outputs[0]
    if wrong := _not_float(x, y):
        return wrong
    if min(p["depth"], p["inner"]) < 1 or y.elements % p["inner"]:
        return f"depth={p['depth']} or inner={p['inner']} is 0, or does not divide"
    return "" if x.elements == y.elements * p["depth"] else f"y has {y.elements} elements"


def _matmul_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    (a, b), y = inputs, outputs[0]
    if wrong := _not_float(a, b, y):
        return wrong
    m, k, n = p["m"], p["k"], p["n"]
    if min(m, k, n) < 1 or max(p["a_shared"], p["b_shared"]) > 1 or y.elements % (m * n):
        return f"m={m}, k={k}, n={n} or one of a_shared and b_shared is outside its range"
    batch = y.elements // (m * n)
    for tensor, matrix, shared in ((a, m * k, "a_shared"), (b, k * n, "b_shared")):
        if tensor.elements != matrix * (1 if p[shared] else batch):
            return f"{tensor.name!r} has {tensor.elements} elements"
    return ""


def _gather_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    (x, indices), y = inputs, outputs[0]
    if not _row_major(indices, y) or x.dtype.size_bytes != y.dtype.size_bytes:
        return "a tensor is not row-major, or elements of x and y differ in size"
    if not _row_major(x) and x.shape != (p["extent"], 1, 1, p["inner"]):
        return f"x is blocked, of the shape {x.shape}, not (extent, 1, 1, inner)"
    if indices.dtype not in (DataType.INT32, DataType.INT64):
        return "the indices are not int32 or int64"
    if min(p["extent"], p["inner"]) < 1 or x.elements % (p["extent"] * p["inner"]):
        return f"extent={p['extent']} or inner={p['inner']} is 0, or does not divide"
    wanted = x.elements // p["extent"] * indices.elements
    return "" if y.elements == wanted else f"y has {y.elements} elements, not {wanted}"


def _external_rule(inputs: Tensors, outputs: Tensors, p: Parameters) -> str:
    return ""


@dataclass(frozen=True)
class OperatorSpec:
    """A line of runtime/FORMAT.md's table. inputs < 0: any number of tensors. in_place: y may be
    x. shared: inputs may overlap each other."""

    inputs: int
    outputs: int
    parameters: tuple[str, ...]
    rule: Callable[[Tensors, Tensors, Parameters], str]
    in_place: bool = False
    shared: bool = False


_AXES = range(MAX_RANK)
COPY_PARAMETERS = (
    "in_offset",
    "out_offset",
    *(f"{n}_{k}" for n in ("extent", "in_stride", "out_stride") for k in _AXES),
)
PACK_PARAMETERS = (
    "h",
    "w",
    "c",
    "kernel_h",
    "kernel_w",
    "stride_h",
    "stride_w",
    "pad_top",
    "pad_left",
    "pad_value",
    "nchw",
)
BROADCAST_PARAMETERS = tuple(f"{n}_{k}" for n in ("extent", "a_stride", "b_stride") for k in _AXES)
_UNARY = OperatorSpec(1, 1, (), _unary_rule)
_BINARY = OperatorSpec(2, 1, BROADCAST_PARAMETERS, _binary_rule, shared=True)

OPERATORS: Mapping[HostOpcode, OperatorSpec] = {
    HostOpcode.COPY: OperatorSpec(1, 1, COPY_PARAMETERS, _copy_rule),
    HostOpcode.FILL: OperatorSpec(0, 1, ("value",), _fill_rule),
    HostOpcode.PACK: OperatorSpec(1, 1, PACK_PARAMETERS, _pack_rule),
    HostOpcode.UNPACK: OperatorSpec(1, 1, ("nchw",), _unpack_rule),
    HostOpcode.QUANTIZE: OperatorSpec(1, 1, ("half_to_even", "low", "high"), _quantize_rule),
    HostOpcode.DEQUANTIZE: OperatorSpec(1, 1, (), _dequantize_rule),
    HostOpcode.LOOKUP: OperatorSpec(2, 1, (), _lookup_rule, in_place=True),
    HostOpcode.SOFTMAX_INT8: OperatorSpec(
        1, 1, ("depth", "multiplier", "left_shift", "diff_min"), _softmax_int8_rule
    ),
    HostOpcode.SOFTMAX_FLOAT32: OperatorSpec(
        1, 1, ("depth",), _softmax_float32_rule, in_place=True
    ),
    HostOpcode.ARGMAX: OperatorSpec(1, 1, ("depth",), _argmax_rule),
    HostOpcode.EXP_FLOAT32: _UNARY,
    HostOpcode.LOG_FLOAT32: _UNARY,
    HostOpcode.SQRT_FLOAT32: _UNARY,
    HostOpcode.RSQRT_FLOAT32: _UNARY,
    HostOpcode.TANH_FLOAT32: _UNARY,
    HostOpcode.SIGMOID_FLOAT32: _UNARY,
    HostOpcode.ERF_FLOAT32: _UNARY,
    HostOpcode.ADD_FLOAT32: _BINARY,
    HostOpcode.SUBTRACT_FLOAT32: _BINARY,
    HostOpcode.MULTIPLY_FLOAT32: _BINARY,
    HostOpcode.DIVIDE_FLOAT32: _BINARY,
    HostOpcode.MAXIMUM_FLOAT32: _BINARY,
    HostOpcode.MINIMUM_FLOAT32: _BINARY,
    HostOpcode.POWER_FLOAT32: _BINARY,
    HostOpcode.SUM_FLOAT32: OperatorSpec(1, 1, ("depth", "inner"), _sum_rule),
    HostOpcode.MATMUL_FLOAT32: OperatorSpec(
        2, 1, ("m", "k", "n", "a_shared", "b_shared"), _matmul_rule, shared=True
    ),
    HostOpcode.GATHER: OperatorSpec(2, 1, ("extent", "inner"), _gather_rule, shared=True),
    HostOpcode.RMS_NORM: OperatorSpec(2, 1, ("depth", "epsilon"), rows.rms_norm_rule, shared=True),
    HostOpcode.ROTATE_PLACES: OperatorSpec(
        3, 1, ("heads", "size", "turned", "neighbours"), rows.rotate_places_rule, shared=True
    ),
    HostOpcode.ROW_SCALES: OperatorSpec(1, 1, ("depth", "rotate"), rows.row_scales_rule),
    HostOpcode.QUANTIZE_ROWS: OperatorSpec(
        2, 1, ("depth", "rotate"), rows.quantize_rows_rule, shared=True
    ),
    HostOpcode.RESCALE_ROWS: OperatorSpec(
        3, 1, ("channels", "planes"), rows.rescale_rows_rule, shared=True
    ),
    HostOpcode.KEEP_ROWS: OperatorSpec(2, 1, ("groups", "size"), rows.keep_rows_rule, shared=True),
    HostOpcode.ATTENTION: OperatorSpec(
        6, 2, ("heads", "groups", "size", "window", "factor"), rows.attention_rule, shared=True
    ),
    HostOpcode.GATE: OperatorSpec(2, 1, ("function",), rows.gate_rule, shared=True),
    HostOpcode.EXTERNAL: OperatorSpec(-1, -1, (), _external_rule),
}
