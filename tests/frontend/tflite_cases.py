# SPDX-License-Identifier: Apache-2.0
"""A case for every builtin operator of TFLite, and for every value of an option that is taken.

In:   the schema's names.
Out:  CASES: operator -> its cases; `model`, a graph with all cases of an operator on one type.
Next: test_tflite_operators.py compares each with LiteRT's reference kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.tflite_builder import Graph, Padding, Tensor

__all__ = ["CASES", "DTYPES", "Case", "drawn", "model"]

#: The letters that `types` of a case are written in; capitals are integers without a scale.
DTYPES: dict[str, type[np.generic]] = {
    "f": np.float32,
    "q": np.int8,
    "u": np.uint8,
    "i": np.int32,
    "l": np.int64,
    "h": np.int16,
    "b": np.bool_,
    "Q": np.int8,
    "U": np.uint8,
}
#: A tensor that the operator reads: a shape, of the case's type; a letter and a shape; a constant.
Input = tuple[int, ...] | tuple[str, tuple[int, ...]] | NDArray[Any] | None


@dataclass(frozen=True)
class Case:
    """Inputs, the shapes of the outputs (with a letter where their type is another), the types that
    it is tried with, options, the range of real inputs, and scale and zero point of int8 outputs
    where they are not the inputs'."""

    inputs: Sequence[Input]
    outputs: Sequence[Any]
    types: str = "f"
    options: Mapping[str, Any] = field(default_factory=dict)
    between: tuple[float, float] = (-4, 4)
    grid: tuple[float, int] | None = None


def case(*inputs: Input, to: Any, types: str = "f", **says: Any) -> Case:
    """to: the output's shape, or a list of them."""
    own = {name: says.pop(name) for name in ("between", "grid") if name in says}
    outputs = to if isinstance(to, list) else [to]
    return Case(inputs, outputs, types, says, **own)


def i32(*values: Any) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def scalar(value: Any, dtype: Any = np.int32) -> NDArray[Any]:
    return np.array(value, dtype)


X = (1, 4, 6, 3)
M = (2, 5)
FUSED = [{"fused_activation_function": n} for n in range(4)]


def unary(types: str = "f", *variants: Mapping[str, Any], **says: Any) -> list[Case]:
    return [case(X, to=X, types=types, **says, **more) for more in variants or ({},)]


def binary(types: str, *variants: Mapping[str, Any], **says: Any) -> list[Case]:
    """Equal shapes; and a row and a constant on the other side, broadcast."""
    row = np.array([[[[1.5, -2.0, 0.75]]]], np.float32)
    made = []
    for more in variants or ({},):
        made.append(case(X, X, to=X, types=types, **says, **more))
        if "f" in types:
            made.append(case(X, row, to=X, **says, **more))
            made.append(case((4, 1, 3), (1, 6, 1), to=(4, 6, 3), **says, **more))
    return made


def compared() -> list[Case]:
    return [
        case(X, X, to=[("b", X)], types="fiqul"),
        case((4, 1, 3), (1, 6, 1), to=[("b", (4, 6, 3))]),
    ]


def reduced(types: str, **says: Any) -> list[Case]:
    made = []
    for keep in (False, True):
        made += [
            case(X, i32(1, 2), to=(1, 1, 1, 3) if keep else (1, 3), types=types, keep_dims=keep),
            case(X, i32(-1), to=(1, 4, 6, 1) if keep else (1, 4, 6), types=types, keep_dims=keep),
            case(X, scalar(1), to=(1, 1, 6, 3) if keep else (1, 6, 3), types="f", keep_dims=keep),
        ]
    return made


def pooled(types: str) -> list[Case]:
    made = []
    for padding in (Padding.SAME, Padding.VALID):
        for fused in FUSED:
            window = {"filter_height": 3, "filter_width": 2, "stride_h": 2, "stride_w": 2}
            size = (1, 2, 3, 3) if padding == Padding.SAME else (1, 1, 3, 3)
            made.append(case(X, to=size, types=types, padding=padding, **window, **fused))
    return made


def weights(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).normal(0, 0.5, shape).astype(np.float32)


def convolved(kind: str) -> list[Case]:
    """Paddings, strides, dilations and activations, in float32: integers have tests of their
    own."""
    depthwise = kind == "DEPTHWISE_CONV_2D"
    w, b = weights(*((1, 3, 2, 6) if depthwise else (5, 3, 2, 3))), weights(6 if depthwise else 5)
    more = {"depth_multiplier": 2} if depthwise else {}
    out, made = w.shape[3] if depthwise else 5, []
    for fused in FUSED:
        unit = {"stride_h": 1, "stride_w": 1, "padding": Padding.SAME}
        made.append(case(X, w, b, to=(1, 4, 6, out), **unit, **fused, **more))
    for padding, size in ((Padding.SAME, (2, 3)), (Padding.VALID, (1, 3))):
        window = {"stride_h": 2, "stride_w": 2, "padding": padding}
        made.append(case(X, w, b, to=(1, *size, out), **window, **more))
    for padding, size in ((Padding.SAME, (4, 6)), (Padding.VALID, (2, 3))):
        window = {"stride_h": 1, "stride_w": 1, "padding": padding}
        apart = {"dilation_h_factor": 1, "dilation_w_factor": 3}
        made.append(case(X, w, b, to=(1, *size, out), **window, **apart, **more))
    return made


def resized(kind: str) -> list[Case]:
    made = []
    for size in ((8, 12), (3, 4), (7, 11), (4, 6)):
        for corners, half in ((False, False), (True, False), (False, True)):
            options = {"align_corners": corners, "half_pixel_centers": half}
            made.append(case(X, i32(*size), to=(1, *size, 3), types="fqu", **options))
    return made


CASES: dict[str, list[Case]] = {
    "ADD": [*binary("fil", *FUSED), case(X, X, to=X, pot_scale_int16=False)],
    "AVERAGE_POOL_2D": pooled("f"),
    "CONCATENATION": [
        case(M, M, to=(4, 5), types="fqil", axis=0),
        case(M, M, M, to=(2, 15), types="fqul", axis=-1),
    ],
    "CONV_2D": convolved("CONV_2D"),
    "DEPTHWISE_CONV_2D": convolved("DEPTHWISE_CONV_2D"),
    "DEPTH_TO_SPACE": [case((1, 2, 3, 8), to=(1, 4, 6, 2), types="fqui", block_size=2)],
    "DEQUANTIZE": [case(X, to=[("f", X)], types="qu")],
    "EMBEDDING_LOOKUP": [case(i32(1, 0, 1), (2, 5), to=(3, 5), types="f")],
    "FLOOR": unary(),
    "FULLY_CONNECTED": [
        *[case(M, weights(3, 5), weights(3), to=(2, 3), **fused) for fused in FUSED],
        case(M, weights(3, 5), None, to=(2, 3)),
        case(M, weights(3, 5), to=(2, 3)),
        case((1, 2, 5), weights(3, 5), weights(3), to=(1, 2, 3), keep_num_dims=True),
        case((1, 2, 5), weights(3, 5), weights(3), to=(2, 3), keep_num_dims=False),
        case(M, weights(3, 5), to=(2, 3), asymmetric_quantize_inputs=True),
        case(M, (3, 5), to=(2, 3)),
        case(M, (3, 5), weights(3), to=(2, 3)),
    ],
    "L2_NORMALIZATION": [case(M, to=M), case(X, to=X)],
    "L2_POOL_2D": pooled("f"),
    "LOCAL_RESPONSE_NORMALIZATION": [
        case(X, to=X, radius=1, bias=1.0, alpha=0.5, beta=0.5),
        case(X, to=X, radius=2, bias=2.0, alpha=1.5, beta=0.75),
    ],
    "LOGISTIC": unary(),
    "MAX_POOL_2D": pooled("f"),
    "MUL": binary("fil", *FUSED),
    "RELU": unary(),
    "RELU_N1_TO_1": unary(),
    "RELU6": unary(),
    "RESHAPE": [
        case(X, i32(6, 12), to=(6, 12), types="fquilb"),
        case(X, i32(-1, 9), to=(8, 9)),
        case(X, to=(3, 24), new_shape=[3, 24]),
        case(X, i32(3, 24), to=(3, 24), new_shape=[8, 9]),
    ],
    "RESIZE_BILINEAR": [c for c in resized("") if c.outputs[0] != (1, 7, 11, 3)],
    "SOFTMAX": [
        *[case(M, to=M, beta=beta) for beta in (1.0, 0.5, 2.0)],
        case(X, to=X, beta=1.0),
    ],
    "SPACE_TO_DEPTH": [case(X, to=(1, 2, 3, 12), types="fqui", block_size=2)],
    "TANH": unary(),
    "PAD": [
        case(X, i32((0, 0), (1, 2), (3, 0), (0, 1)), to=(1, 7, 9, 4), types="fqui"),
        case(M, i32((1, 1), (0, 2)), to=(4, 7), types="fl"),
    ],
    "PADV2": [
        case(M, i32((1, 1), (0, 2)), scalar(1.5, np.float32), to=(4, 7)),
        case(M, i32((1, 1), (0, 2)), scalar(7), to=(4, 7), types="i"),
    ],
    "GATHER": [
        case(X, i32(1, 0, 3), to=(1, 3, 6, 3), types="fqil", axis=1),
        case(X, i32((1, 0), (2, 2)), to=(1, 4, 6, 2, 2), axis=-1),
        case((2, 4, 3), i32((1, 0), (2, 2)), to=(2, 2, 3), axis=1, batch_dims=1),
    ],
    "BATCH_TO_SPACE_ND": [
        case((4, 2, 3, 2), i32(2, 2), i32((0, 1), (1, 0)), to=(1, 3, 5, 2), types="fqi")
    ],
    "SPACE_TO_BATCH_ND": [
        case((1, 3, 5, 2), i32(2, 2), i32((0, 1), (1, 0)), to=(4, 2, 3, 2), types="fqi")
    ],
    "TRANSPOSE": [case(X, i32(0, 3, 1, 2), to=(1, 3, 4, 6), types="fquilb")],
    "MEAN": reduced("f"),
    "SUB": [*binary("fil", *FUSED), case(X, X, to=X, pot_scale_int16=False)],
    "DIV": binary("f", *FUSED, between=(1, 4)),
    "SQUEEZE": [
        case((1, 4, 1, 3), to=(4, 3), types="fqil"),
        case((1, 4, 1, 3), to=(1, 4, 3), squeeze_dims=[2]),
        case((1, 4, 1, 3), to=(4, 1, 3), squeeze_dims=[-4]),
    ],
    "STRIDED_SLICE": [
        case(X, i32(0, 1, 5, 0), i32(1, 4, 0, 3), i32(1, 2, -2, 1), to=(1, 2, 3, 3), types="fqil"),
        case(
            X,
            i32(9, 1, 9, 1),
            i32(9, 4, 9, 3),
            i32(1, 2, 1, 1),
            to=(1, 2, 6, 2),
            begin_mask=5,
            end_mask=5,
        ),
        case(
            X, i32(0, 2, 1, 0), i32(1, 3, 4, 3), i32(1, 1, 1, 1), to=(1, 3, 3), shrink_axis_mask=2
        ),
        case(
            X, i32(0, -2, 1, 0), i32(1, 0, 4, 3), i32(1, 1, 1, 1), to=(1, 3, 3), shrink_axis_mask=2
        ),
        case(X, i32(0, 1), i32(0, 3), i32(1, 1), to=(1, 4, 6, 2), ellipsis_mask=1),
        case(M, i32(0, 0, 1), i32(0, 2, 4), i32(1, 1, 1), to=(1, 2, 3), new_axis_mask=1),
        case(M, i32(0, 1), i32(1, 2), i32(1, 1), to=(1, 2), offset=True),
    ],
    "EXP": unary(),
    "TOPK_V2": [case(M, scalar(3), to=[(2, 3), ("i", (2, 3))])],
    "SPLIT": [
        case(scalar(1), (*M[:1], 6), to=[(2, 2)] * 3, types="fqil", num_splits=3),
        case(scalar(-2), (4, 3), to=[(2, 3)] * 2, num_splits=2),
    ],
    "LOG_SOFTMAX": [case(M, to=M), case(X, to=X)],
    "CAST": [
        case(X, to=[("f", X)], types="ilQUb"),
        case(X, to=[("i", X)], types="flQUb"),
        case(X, to=[("l", X)], types="fiQU"),
        *[case(X, to=[(letter, X)], types="fi", between=(0, 9)) for letter in "bQUh"],
    ],
    "PRELU": [
        case(X, weights(1, 1, 3), to=X),
        case(X, weights(4, 6, 3), to=X),
        case(X, X, to=X),
    ],
    "MAXIMUM": binary("fil"),
    "MINIMUM": binary("fil"),
    "ARG_MAX": [
        case(
            X,
            scalar(axis),
            to=[(letter, tuple(np.delete(X, axis)))],
            types="fqui",
            output_type=number,
        )
        for axis in (3, 1, -2)
        for letter, number in (("i", 2), ("l", 4))
    ],
    "ARG_MIN": [
        case(
            X,
            scalar(axis),
            to=[(letter, tuple(np.delete(X, axis)))],
            types="fqui",
            output_type=number,
        )
        for axis in (3, 1, -2)
        for letter, number in (("i", 2), ("l", 4))
    ],
    "LESS": compared(),
    "NEG": unary("fil"),
    "GREATER": compared(),
    "GREATER_EQUAL": compared(),
    "LESS_EQUAL": compared(),
    "EQUAL": [*compared(), case(X, X, to=[("b", X)], types="b")],
    "NOT_EQUAL": [*compared(), case(X, X, to=[("b", X)], types="b")],
    "SELECT": [
        case(("b", X), X, X, to=X, types="fqil"),
        case(("b", (4,)), (4, 3), (4, 3), to=(4, 3)),
    ],
    "SELECT_V2": [
        case(("b", X), X, X, to=X, types="fqil"),
        case(("b", (4, 1, 3)), (1, 6, 1), (4, 6, 3), to=(4, 6, 3)),
    ],
    "SLICE": [
        case(X, i32(0, 1, 2, 0), i32(1, 2, 3, 3), to=(1, 2, 3, 3), types="fquil"),
        case(X, i32(0, 1, 2, 0), i32(-1, -1, -1, 2), to=(1, 3, 4, 2)),
    ],
    "SIN": unary(),
    "COS": unary(),
    "TRANSPOSE_CONV": [
        *[
            case(
                i32(1, 8, 12, 5),
                weights(5, 3, 2, 3),
                X,
                weights(5),
                to=(1, 8, 12, 5),
                stride_h=2,
                stride_w=2,
                padding=0,
                **fused,
            )
            for fused in FUSED
        ],
        case(
            i32(1, 9, 12, 5),
            weights(5, 3, 2, 3),
            X,
            to=(1, 9, 12, 5),
            stride_h=2,
            stride_w=2,
            padding=1,
        ),
    ],
    "SPARSE_TO_DENSE": [
        case(i32(1, 4), i32(6), weights(2), scalar(0.5, np.float32), to=(6,)),
    ],
    "TILE": [case(M, i32(2, 3), to=(4, 15), types="fquil")],
    "EXPAND_DIMS": [
        case(M, scalar(1), to=(2, 1, 5), types="fqil"),
        case(M, scalar(-1), to=(2, 5, 1)),
    ],
    "LOG": unary(between=(0.1, 4)),
    "SUM": reduced("fi"),
    "SQRT": unary(between=(0.1, 4)),
    "RSQRT": unary(between=(0.1, 4)),
    "SHAPE": [
        case(X, to=[(letter, (4,))], out_type=number, types="fqi")
        for letter, number in (("i", 2), ("l", 4))
    ],
    "POW": [
        case(X, X, to=X, between=(0.2, 3)),
        case(X, X, to=X, types="i", between=(0, 4)),
    ],
    "REDUCE_PROD": reduced("fi"),
    "REDUCE_MAX": reduced("fqui"),
    "REDUCE_MIN": reduced("fqui"),
    "REDUCE_ANY": [c for c in reduced("b") if c.types == "b"],
    "REDUCE_ALL": [c for c in reduced("b") if c.types == "b"],
    "PACK": [
        case(M, M, M, to=(3, 2, 5), types="fqil", values_count=3, axis=0),
        case(M, M, to=(2, 5, 2), values_count=2, axis=-1),
    ],
    "LOGICAL_OR": [case(X, X, to=X, types="b")],
    "LOGICAL_AND": [case(X, X, to=X, types="b")],
    "LOGICAL_NOT": [case(X, to=X, types="b")],
    "ONE_HOT": [
        case(
            ("i", (2, 3)),
            scalar(4),
            scalar(2.5, np.float32),
            scalar(-1, np.float32),
            to=(2, 3, 4),
            axis=-1,
            between=(0, 4),
        ),
        case(
            ("i", (2, 3)),
            scalar(4),
            scalar(2.5, np.float32),
            scalar(-1, np.float32),
            to=(2, 4, 3),
            axis=1,
            between=(0, 4),
        ),
    ],
    "UNPACK": [
        case((3, 5), to=[(5,)] * 3, types="fqil", num=3, axis=0),
        case((3, 2), to=[(3,)] * 2, num=2, axis=-1),
    ],
    "FLOOR_DIV": [*binary("f", between=(1, 4)), case(X, X, to=X, types="i", between=(1, 9))],
    "FLOOR_MOD": [*binary("f", between=(1, 4)), case(X, X, to=X, types="il", between=(1, 9))],
    "SQUARE": unary(),
    "ZEROS_LIKE": unary("fil"),
    "FILL": [case(i32(2, 3), (), to=(2, 3), types="fil")],
    "REVERSE_V2": [case(X, i32(2), to=X, types="fqil")],
    "ADD_N": [case(X, X, X, to=X, types="fi")],
    "GATHER_ND": [
        case(X, i32((0, 1), (0, 3)), to=(2, 6, 3), types="fqil"),
        case((4, 3), i32(((1, 0),), ((3, 2),)), to=(2, 1)),
    ],
    "RANK": [case(X, to=[("i", ())], types="fqi")],
    "REVERSE_SEQUENCE": [
        case((2, 4, 3), i32(3, 2), to=(2, 4, 3), seq_dim=1, batch_dim=0),
        case((4, 2, 3), i32(3, 2), to=(4, 2, 3), seq_dim=0, batch_dim=1),
    ],
    "MATRIX_DIAG": [case((2, 3), to=(2, 3, 3), types="fi")],
    "MATRIX_SET_DIAG": [case((2, 3, 3), (2, 3), to=(2, 3, 3), types="fi")],
    "HARD_SWISH": unary(),
    "SCATTER_ND": [case(i32((1,), (3,)), (2, 5), i32(4, 5), to=(4, 5), types="fil")],
    "BATCH_MATMUL": [
        case((2, 3, 4), (2, 4, 5), to=(2, 3, 5)),
        case((2, 4, 3), (2, 4, 5), to=(2, 3, 5), adj_x=True),
        case((2, 3, 4), (2, 5, 4), to=(2, 3, 5), adj_y=True),
        case((2, 1, 3, 4), (5, 4, 6), to=(2, 5, 3, 6)),
        case((2, 3, 4), (2, 4, 5), to=(2, 3, 5), asymmetric_quantize_inputs=True),
    ],
    "CUMSUM": [
        case(M, scalar(1), to=M, types="fil", exclusive=exclusive, reverse=reverse)
        for exclusive in (False, True)
        for reverse in (False, True)
    ],
    "BROADCAST_TO": [case((1, 5), i32(3, 5), to=(3, 5), types="fqil")],
    "BROADCAST_ARGS": [case(i32(1, 5), i32(3, 1, 5), to=[("i", (3,))])],
    "CONV_3D": [
        case(
            (1, 4, 5, 6, 2),
            weights(2, 3, 2, 2, 3),
            weights(3),
            to=(1, 4, 5, 6, 3),
            stride_d=1,
            stride_h=1,
            stride_w=1,
            padding=0,
        ),
        case(
            (1, 4, 5, 6, 2),
            weights(2, 3, 2, 2, 3),
            weights(3),
            to=(1, 2, 2, 3, 3),
            stride_d=2,
            stride_h=2,
            stride_w=2,
            padding=1,
            fused_activation_function=1,
        ),
    ],
    "GELU": unary("f", {"approximate": False}, {"approximate": True}),
    "DYNAMIC_UPDATE_SLICE": [case(X, (1, 2, 2, 3), i32(0, 1, 1, 0), to=X, types="fil")],
    "RELU_0_TO_1": unary(),
    "UNSORTED_SEGMENT_SUM": [case((4, 3), i32(0, 2, 0, 1), scalar(3), to=(3, 3), types="fi")],
    "UNSORTED_SEGMENT_PROD": [case((4, 3), i32(0, 2, 0, 1), scalar(3), to=(3, 3), types="fi")],
    "UNSORTED_SEGMENT_MAX": [case((4, 3), i32(0, 2, 0, 1), scalar(3), to=(3, 3), types="fi")],
    "UNSORTED_SEGMENT_MIN": [case((4, 3), i32(0, 2, 0, 1), scalar(3), to=(3, 3), types="fi")],
    "SEGMENT_SUM": [case((4, 3), i32(0, 0, 1, 2), to=(3, 3), types="fi")],
    "ATAN2": [case(X, X, to=X)],
    "SIGN": unary("f"),
    "BITCAST": [case(X, to=[("i", X)])],
    "BITWISE_XOR": [case(X, X, to=X, types="iqu")],
    "RIGHT_SHIFT": [case(X, X, to=X, types="iqu", between=(0, 5))],
    "ELU": unary(),
    "LEAKY_RELU": unary("f", {"alpha": 0.25}, {"alpha": -0.5}),
    "SQUARED_DIFFERENCE": binary("fi"),
    "MIRROR_PAD": [
        case(M, i32((1, 1), (0, 2)), to=(4, 7), types="fqi", mode=mode) for mode in (0, 1)
    ],
    "ABS": unary("fi"),
    "CEIL": unary(),
    "ROUND": unary(),
    "SPLIT_V": [
        case(M, i32(1, 3, 1), scalar(1), to=[(2, 1), (2, 3), (2, 1)], types="fqil", num_splits=3),
        case(M, i32(1, -1), scalar(-1), to=[(2, 1), (2, 4)], num_splits=2),
    ],
    "RESIZE_NEAREST_NEIGHBOR": resized(""),
    "RANGE": [case(scalar(2), scalar(9), scalar(3), to=[("i", (3,))])],
    "UNIQUE": [case(("i", (6,)), to=[("i", (6,)), ("i", (6,))], idx_out_type=2)],
    "WHERE": [case(("b", (4,)), to=[("l", (4, 1))])],
    "QUANTIZE": [case(X, to=[("q", X)]), case(X, to=[("u", X)], types="f")],
    "BUCKETIZE": [case(X, to=[("i", X)], boundaries=(-1.0, 0.5, 2.0))],
    "RFFT2D": [],
    "FAKE_QUANT": [
        case(X, to=X, min=-1.0, max=2.0, num_bits=8, narrow_range=n) for n in (False, True)
    ],
    "DILATE": [case(M, i32(2, 3), scalar(0.5, np.float32), to=(3, 13))],
    "CONV_3D_TRANSPOSE": [],
}


def _grid(letter: str, own: tuple[float, int] | None, *, output: bool) -> dict[str, Any]:
    if letter not in "qu":
        return {}
    scale, zero_point = own if own is not None and output else (0.05, 3)
    return {"scale": scale, "zero_point": zero_point + 128 * (letter == "u")}


def model(kind: str, cases: Sequence[Case], letter: str) -> tuple[Graph, list[Tensor]]:
    """All of the cases on one type, in one graph."""
    graph, outputs = Graph(), []
    for one in cases:
        sources: list[Tensor | None] = []
        for given in one.inputs:
            if given is None:
                sources.append(None)
            elif isinstance(given, np.ndarray):
                sources.append(graph.constant(given))
            else:
                named = given if given[:1] and isinstance(given[0], str) else (letter, given)
                sources.append(
                    graph.input(named[1], DTYPES[named[0]], **_grid(named[0], None, output=False))
                )
        targets = []
        for wanted in one.outputs:
            named = wanted if wanted[:1] and isinstance(wanted[0], str) else (letter, wanted)
            targets.append(
                graph.tensor(named[1], DTYPES[named[0]], **_grid(named[0], one.grid, output=True))
            )
        graph.operator(kind, sources, targets, **one.options)
        outputs += targets
    return graph, outputs


def drawn(graph: Graph, cases: Sequence[Case], seed: int = 0) -> list[NDArray[Any]]:
    """A value for each input."""
    rng, values = np.random.default_rng(seed), []
    low, high = cases[0].between
    for tensor in graph.inputs:
        if tensor.dtype == np.float32:
            values.append(rng.uniform(low, high, tensor.shape).astype(np.float32))
        elif tensor.dtype == np.bool_:
            values.append(rng.integers(0, 2, tensor.shape).astype(np.bool_))
        elif tensor.scale.size:
            limits = np.iinfo(tensor.dtype)
            values.append(
                rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
            )
        else:
            top = int(high) if cases[0].between != (-4, 4) else 60
            bottom = int(low) if cases[0].between != (-4, 4) else -60
            if np.issubdtype(tensor.dtype, np.unsignedinteger):
                bottom = max(0, bottom)
            values.append(rng.integers(bottom, top, tensor.shape).astype(tensor.dtype))
    return values
