# SPDX-License-Identifier: Apache-2.0
"""The supported builtin operators of TFLite, with their options and types.

In:   an operator's name, its options, the types of its tensors.
Out:  nothing, or the end of a sentence that states what is not supported.
Next: tflite_file.py checks every operator before anything is converted.

Every line is tried against LiteRT's reference kernels (tests/frontend/test_tflite_operators.py).
What TVM's importer would take besides is not: nobody has seen that it is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tflite

from loadstone.frontend.tflite_options import Options, defaults

__all__ = ["OPERATORS", "UNREAD", "OperatorLimits", "wrong_operator"]

MAX_WINDOW = 2**16
_TYPES = {
    "f": "float32",
    "i": "int32",
    "l": "int64",
    "h": "int16",
    "b": "bool",
    "e": "float16",
}
_EIGHT_BITS = ("int8", "uint8")
_CLAMPS = (0, 1, 2, 3)


class OperatorLimits(NamedTuple):
    """options: the operator's table of options, "" for none. reads: the fields that its conversion
    reads, or that LiteRT's kernels never look at for the types below. inputs: the fewest and the
    most. types: of input `data` and the first output besides 8-bit integers, for which
    tflite_kernels.py has lists; other: types that one of the two has besides. alike:
    whether all inputs have one type, and the output too where `other` says no more."""

    options: str
    reads: str
    inputs: tuple[int, int]
    types: str
    needs_options: bool = False
    data: int = 0
    other: tuple[str, ...] = ()
    alike: bool = False


def _unary(options: str, reads: str = "", types: str = "f") -> OperatorLimits:
    return OperatorLimits(options, reads, (1, 1), types)


def _binary(options: str, types: str, reads: str = "") -> OperatorLimits:
    """Of an input and an argument."""
    return OperatorLimits(options, reads, (2, 2), types)


def _pair(options: str, types: str, reads: str = "") -> OperatorLimits:
    """Of two inputs, element by element."""
    return OperatorLimits(options, reads, (2, 2), types, alike=True)


def _compared(options: str) -> OperatorLimits:
    return OperatorLimits(options, "", (2, 2), "filb", other=("bool",), alike=True)


_WINDOW = "padding stride_w stride_h fused_activation_function"
_DILATED = f"{_WINDOW} dilation_w_factor dilation_h_factor"
_POOL = f"{_WINDOW} filter_width filter_height"
_REDUCER = OperatorLimits("ReducerOptions", "keep_dims", (2, 2), "fi")

#: Fields that choose what no file of these types can tell: rounding of int16, scales that a kernel
#: chooses at run time (which is refused), the type of a bias that the file says itself, the number
#: of outputs, types and shapes that the tensors have, what a delegate may know a composite by.
UNREAD = (
    "pot_scale_int16",
    "asymmetric_quantize_inputs",
    "quantized_bias_type",
    "num_splits",
    "values_count",
    "num",
    "in_data_type",
    "out_data_type",
    "validate_indices",
    "name",
    "composite_attributes",
    "composite_attributes_format",
    "version",
    "squeeze_dims",
    "new_shape",
)

OPERATORS: Mapping[str, OperatorLimits] = {
    "ADD": _pair("AddOptions", "fil", "fused_activation_function"),
    "AVERAGE_POOL_2D": OperatorLimits("Pool2DOptions", _POOL, (1, 1), "f", True),
    "CONCATENATION": OperatorLimits("ConcatenationOptions", "axis", (1, 10**6), "filb", alike=True),
    "CONV_2D": OperatorLimits("Conv2DOptions", _DILATED, (2, 3), "f", True),
    "DEPTHWISE_CONV_2D": OperatorLimits(
        "DepthwiseConv2DOptions", f"{_DILATED} depth_multiplier", (2, 3), "f", True
    ),
    "DEPTH_TO_SPACE": OperatorLimits("DepthToSpaceOptions", "block_size", (1, 1), "fi", True),
    "DEQUANTIZE": _unary("DequantizeOptions", types="fe"),
    "FULLY_CONNECTED": OperatorLimits(
        "FullyConnectedOptions",
        "fused_activation_function weights_format keep_num_dims",
        (2, 3),
        "f",
    ),
    "L2_NORMALIZATION": _unary("L2NormOptions"),
    "LOGISTIC": _unary(""),
    "MAX_POOL_2D": OperatorLimits("Pool2DOptions", _POOL, (1, 1), "f", True),
    "MUL": _pair("MulOptions", "fil", "fused_activation_function"),
    "RELU": _unary(""),
    "RELU_N1_TO_1": _unary(""),
    "RELU6": _unary(""),
    "RESHAPE": OperatorLimits("ReshapeOptions", "", (1, 2), "filbh"),
    "RESIZE_BILINEAR": OperatorLimits(
        "ResizeBilinearOptions", "align_corners half_pixel_centers", (2, 2), "f"
    ),
    "SOFTMAX": OperatorLimits("SoftmaxOptions", "beta", (1, 1), "f", True),
    "SPACE_TO_DEPTH": OperatorLimits("SpaceToDepthOptions", "block_size", (1, 1), "fi", True),
    "SVDF": OperatorLimits("SVDFOptions", "rank fused_activation_function", (5, 5), "fh", True),
    "TANH": _unary(""),
    "PAD": _binary("PadOptions", "fil"),
    "GATHER": OperatorLimits("GatherOptions", "axis batch_dims", (2, 2), "fil"),
    "BATCH_TO_SPACE_ND": OperatorLimits("BatchToSpaceNDOptions", "", (3, 3), "fi"),
    "SPACE_TO_BATCH_ND": OperatorLimits("SpaceToBatchNDOptions", "", (3, 3), "fi"),
    "TRANSPOSE": _binary("TransposeOptions", "filb"),
    "MEAN": _REDUCER._replace(types="f"),
    "SUB": _pair("SubOptions", "fil", "fused_activation_function"),
    "DIV": _pair("DivOptions", "f", "fused_activation_function"),
    "SQUEEZE": _unary("SqueezeOptions", types="filb"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": OperatorLimits(
        "UnidirectionalSequenceLSTMOptions",
        "fused_activation_function cell_clip proj_clip time_major diagonal_recurrent_tensors",
        (20, 24),
        "fh",
        True,
    ),
    "STRIDED_SLICE": OperatorLimits(
        "StridedSliceOptions",
        "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask",
        (4, 4),
        "fil",
    ),
    "EXP": _unary("ExpOptions"),
    "TOPK_V2": _binary("TopKV2Options", "f"),
    "SPLIT": _binary("SplitOptions", "fil")._replace(data=1),
    "LOG_SOFTMAX": _unary("LogSoftmaxOptions"),
    "CAST": _unary("CastOptions", types="filhb"),
    "PRELU": _pair("", "f"),
    "MAXIMUM": _pair("MaximumMinimumOptions", "fil"),
    "MINIMUM": _pair("MaximumMinimumOptions", "fil"),
    "ARG_MAX": _binary("ArgMaxOptions", "fil", "output_type")._replace(other=("int64",)),
    "ARG_MIN": _binary("ArgMinOptions", "fil", "output_type")._replace(other=("int64",)),
    "LESS": _compared("LessOptions"),
    "NEG": _unary("NegOptions", types="fil"),
    "PADV2": OperatorLimits("PadV2Options", "", (3, 3), "fi"),
    "GREATER": _compared("GreaterOptions"),
    "GREATER_EQUAL": _compared("GreaterEqualOptions"),
    "LESS_EQUAL": _compared("LessEqualOptions"),
    "EQUAL": _compared("EqualOptions"),
    "NOT_EQUAL": _compared("NotEqualOptions"),
    "SELECT": OperatorLimits("SelectOptions", "", (3, 3), "filb", data=1),
    "SELECT_V2": OperatorLimits("SelectV2Options", "", (3, 3), "filb", data=1),
    "SLICE": OperatorLimits("SliceOptions", "", (3, 3), "fil"),
    "SIN": _unary(""),
    "COS": _unary("CosOptions"),
    "TRANSPOSE_CONV": OperatorLimits("TransposeConvOptions", _WINDOW, (3, 4), "f", True, data=2),
    "TILE": _binary("TileOptions", "fil"),
    "EXPAND_DIMS": _binary("ExpandDimsOptions", "filb"),
    "LOG": _unary(""),
    "SUM": _REDUCER,
    "SQRT": _unary(""),
    "RSQRT": _unary(""),
    "SHAPE": _unary("ShapeOptions", "out_type", "filhb"),
    "POW": _pair("PowOptions", "f"),
    "REDUCE_PROD": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "REDUCE_ANY": _REDUCER._replace(types="b"),
    "REDUCE_ALL": _REDUCER._replace(types="b"),
    "PACK": OperatorLimits("PackOptions", "axis", (1, 10**6), "filb", alike=True),
    "LOGICAL_OR": _pair("LogicalOrOptions", "b"),
    "LOGICAL_AND": _pair("LogicalAndOptions", "b"),
    "LOGICAL_NOT": _unary("LogicalNotOptions", types="b"),
    "ONE_HOT": OperatorLimits("OneHotOptions", "axis", (4, 4), "f", data=2),
    "UNPACK": _unary("UnpackOptions", "axis", "fi"),
    "FLOOR": _unary(""),
    "FLOOR_DIV": _pair("FloorDivOptions", "fi"),
    "FLOOR_MOD": _pair("FloorModOptions", "fil"),
    "SQUARE": _unary("SquareOptions"),
    "ZEROS_LIKE": _unary("ZerosLikeOptions", types="fil"),
    "FILL": _binary("FillOptions", "fil")._replace(data=1),
    "REVERSE_V2": _binary("ReverseV2Options", "fil"),
    "ADD_N": OperatorLimits("AddNOptions", "", (1, 10**6), "fi", alike=True),
    "GATHER_ND": _binary("GatherNdOptions", "fil"),
    "RANK": _unary("RankOptions", types="filhb"),
    "REVERSE_SEQUENCE": OperatorLimits("ReverseSequenceOptions", "seq_dim batch_dim", (2, 2), "f"),
    "RELU_0_TO_1": _unary(""),
    "BITCAST": _unary("BitcastOptions", types="fi"),
    "DILATE": OperatorLimits("DilateOptions", "", (3, 3), "f"),
    "FAKE_QUANT": OperatorLimits("FakeQuantOptions", "min max num_bits", (1, 1), "f", True),
    "DYNAMIC_UPDATE_SLICE": OperatorLimits("DynamicUpdateSliceOptions", "", (3, 3), "fil"),
    "EMBEDDING_LOOKUP": OperatorLimits("", "", (2, 2), "f", data=1),
    "L2_POOL_2D": OperatorLimits("Pool2DOptions", _POOL, (1, 1), "f", True),
    "HARD_SWISH": _unary("HardSwishOptions"),
    "BATCH_MATMUL": OperatorLimits("BatchMatMulOptions", "adj_x adj_y", (2, 2), "f", alike=True),
    "CUMSUM": OperatorLimits("CumsumOptions", "exclusive reverse", (2, 2), "fil"),
    "BROADCAST_TO": _binary("BroadcastToOptions", "fil"),
    "GELU": _unary("GeluOptions", "approximate"),
    "UNSORTED_SEGMENT_SUM": OperatorLimits("UnsortedSegmentSumOptions", "", (3, 3), "fi"),
    "UNSORTED_SEGMENT_PROD": OperatorLimits("UnsortedSegmentProdOptions", "", (3, 3), "fi"),
    "UNSORTED_SEGMENT_MAX": OperatorLimits("UnsortedSegmentMaxOptions", "", (3, 3), "fi"),
    "UNSORTED_SEGMENT_MIN": OperatorLimits("UnsortedSegmentMinOptions", "", (3, 3), "fi"),
    "ATAN2": _pair("ATan2Options", "f"),
    "SIGN": _unary("SignOptions"),
    "BITWISE_XOR": _pair("BitwiseXorOptions", "i"),
    "RIGHT_SHIFT": _pair("RightShiftOptions", "i"),
    "ELU": _unary(""),
    "LEAKY_RELU": _unary("LeakyReluOptions", "alpha"),
    "SQUARED_DIFFERENCE": _pair("SquaredDifferenceOptions", "fi"),
    "MIRROR_PAD": OperatorLimits("MirrorPadOptions", "mode", (2, 2), "fi", True),
    "ABS": _unary("AbsOptions", types="fi"),
    "CEIL": _unary(""),
    "ROUND": _unary(""),
    "SPLIT_V": OperatorLimits("SplitVOptions", "", (3, 3), "fil"),
    "RESIZE_NEAREST_NEIGHBOR": OperatorLimits(
        "ResizeNearestNeighborOptions", "align_corners half_pixel_centers", (2, 2), "f"
    ),
    "QUANTIZE": _unary("QuantizeOptions"),
    "CONV_3D": OperatorLimits(
        "Conv3DOptions",
        f"{_DILATED} stride_d dilation_d_factor",
        (2, 3),
        "f",
        True,
    ),
    "STABLEHLO_COMPOSITE": OperatorLimits(
        "StableHLOCompositeOptions",
        "decomposition_subgraph_index",
        (0, 10**6),
        "filhb",
        True,
    ),
    "VAR_HANDLE": OperatorLimits(
        "VarHandleOptions", "container shared_name", (0, 0), "filhb", True, other=("resource",)
    ),
    "CALL_ONCE": OperatorLimits("CallOnceOptions", "init_subgraph_index", (0, 0), "", True),
    "READ_VARIABLE": _unary("ReadVariableOptions", types="filhb"),
    "ASSIGN_VARIABLE": _binary("AssignVariableOptions", "filhb")._replace(data=1),
}

#: Values that are taken, where they are not all that the field can have.
_VALUES: Mapping[str, Sequence[object]] = {
    "padding": (0, 1),
    "fused_activation_function": _CLAMPS,
    "weights_format": (0,),
    "mode": (0, 1),
    "diagonal_recurrent_tensors": (False,),
}
_ENUMERATIONS: Mapping[str, type] = {
    "fused_activation_function": tflite.ActivationFunctionType,
    "padding": tflite.Padding,
    "mode": tflite.MirrorPadMode,
}
#: How many outputs an operator has, where it is not one; None for any number.
_OUTPUTS: Mapping[str, int | None] = {
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK", "STABLEHLO_COMPOSITE")),
    **dict.fromkeys(("ASSIGN_VARIABLE", "CALL_ONCE"), 0),
    "TOPK_V2": 2,
}
#: Fields by which LiteRT gives the output a type, and their numbers.
_OUTPUT_TYPES = ("output_type", "out_type")
_NUMBERED = {2: "int32", 4: "int64"}
#: Operators with lists of their own, whose conversion names what it does not take, and which inputs
#: may be left out.
_OWN_VALUES = ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
#: Fields that are divided by, or count elements.
_POSITIVE = (
    *("stride_d", "stride_h", "stride_w"),
    *("dilation_d_factor", "dilation_h_factor", "dilation_w_factor"),
    *("filter_height", "filter_width", "block_size"),
)


def wrong_operator(
    code: str, options: Options, inputs: Sequence[str | None], outputs: Sequence[str]
) -> str | None:
    """The first thing that is not taken. code: in OPERATORS. options: all of its fields. inputs,
    outputs: types; None of an input that is left out."""
    taken = OPERATORS[code]
    low, high = taken.inputs
    if not low <= len(inputs) <= high:
        most = f"{low} to {high}" if low < high else f"{low}"
        return f"has {len(inputs)} inputs, and {most} are taken"
    if None in inputs[:low] and code not in _OWN_VALUES:
        return f"leaves out input {list(inputs).index(None)}, which it needs"
    count = _OUTPUTS.get(code, 1)
    if count is not None and len(outputs) != count:
        return f"has {len(outputs)} outputs, and {count} {'is' if count == 1 else 'are'} taken"
    own = code in _OWN_VALUES
    return (
        _wrong_type(taken, inputs, outputs)
        or _wrong_output_type(taken, options, outputs)
        or _wrong_option(taken, options, own=own)
    )


def _wrong_type(
    taken: OperatorLimits, inputs: Sequence[str | None], outputs: Sequence[str]
) -> str | None:
    for dtype in (*inputs[taken.data : taken.data + 1], *outputs[:1]):
        known = [_TYPES[letter] for letter in taken.types]
        if dtype is not None and dtype not in (*known, *_EIGHT_BITS, *taken.other):
            return f"has a tensor of {dtype}, and only {', '.join(known) or 'none'} is taken"
    kinds = dict.fromkeys(inputs if taken.other else (*inputs, *outputs))
    if taken.alike and len(kinds) > 1:
        return f"has tensors of {' and '.join(map(str, kinds))}, and only one type is taken"
    return None


def _wrong_output_type(
    taken: OperatorLimits, options: Options, outputs: Sequence[str]
) -> str | None:
    for name in _OUTPUT_TYPES:
        if name in taken.reads.split() and _NUMBERED.get(options[name]) != outputs[0]:
            said = _NUMBERED.get(options[name], options[name])
            return f"has {name} = {said}, and its output is {outputs[0]}"
    return None


def _wrong_option(taken: OperatorLimits, options: Options, *, own: bool) -> str | None:
    usual = defaults(taken.options)
    for name, value in options.items():
        if name in _POSITIVE and not 1 <= value <= MAX_WINDOW:
            return f"has {name} = {value}, outside [1, {MAX_WINDOW}]"
        if name in UNREAD:
            continue
        if name not in taken.reads.split():
            if value != usual[name]:
                return f"has {name} = {value}, and only {usual[name]} is taken"
        elif name in _VALUES and not own and value not in _VALUES[name]:
            known = " or ".join(_named(name, number) for number in _VALUES[name])
            return f"has {name} = {_named(name, value)}, and only {known} is taken"
    return None


def _named(field: str, value: object) -> str:
    """A number of an enumeration by its name."""
    names = vars(_ENUMERATIONS.get(field, object))
    return next((name for name in names if names[name] == value), str(value))
