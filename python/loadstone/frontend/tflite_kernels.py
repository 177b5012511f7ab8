# SPDX-License-Identifier: Apache-2.0
"""The operators of TFLite whose 8-bit kernels equal their float operators between dequantize and
quantize, and the conditions for this.

In:   nothing: measured on LiteRT's reference kernels, operator by operator.
Out:  lists of operators.
Next: tflite_rules.py checks every operator of a file against them.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BY_TYPE",
    "COMPUTED",
    "COMPUTED_INT8",
    "COMPUTED_UINT8",
    "COPIES",
    "EIGHT_BITS",
    "MAX_RATIO",
    "ONE_QUANTIZATION",
    "OPERANDS",
    "PRODUCTS",
    "RATIOS",
    "SCALELESS",
    "STEPS",
    "TYPE_CHANGING",
    "Operands",
]

EIGHT_BITS = ("int8", "uint8")
#: Copy bytes, whatever the output's scale: the integers are the input's, and mean something else
#: from there on.
COPIES = (
    "RESHAPE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "TRANSPOSE",
    "SLICE",
    "STRIDED_SLICE",
    "MAX_POOL_2D",
    "RESIZE_NEAREST_NEIGHBOR",
    "RESIZE_BILINEAR",
    "SPACE_TO_DEPTH",
    "DEPTH_TO_SPACE",
    "TILE",
    "REVERSE_V2",
    "BROADCAST_TO",
    "GATHER",
)
#: Copy or compare bytes of several tensors, or fill in a zero point: the same as the real operator
#: for one quantization only.
ONE_QUANTIZATION = (
    "PAD",
    "PADV2",
    "MIRROR_PAD",
    "SPACE_TO_BATCH_ND",
    "BATCH_TO_SPACE_ND",
    "PACK",
    "UNPACK",
    "SPLIT",
    "SPLIT_V",
    "SELECT",
    "SELECT_V2",
    "MAXIMUM",
    "MINIMUM",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "GATHER_ND",
)
#: Their results are the real ones, rounded: the rules of graph/kernels/tflite/, or measured over
#: all values and many scales.
COMPUTED = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "TRANSPOSE_CONV",
    "FULLY_CONNECTED",
    "ADD",
    "SUB",
    "MUL",
    "DIV",
    "MEAN",
    "AVERAGE_POOL_2D",
    "CONCATENATION",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "LEAKY_RELU",
    "LOGISTIC",
    "TANH",
    "HARD_SWISH",
    "GELU",
    "SOFTMAX",
    "LOG_SOFTMAX",
    "L2_NORMALIZATION",
    "QUANTIZE",
    "DEQUANTIZE",
    "ARG_MAX",
    "ARG_MIN",
    "EQUAL",
    "NOT_EQUAL",
    "GREATER",
    "GREATER_EQUAL",
    "LESS",
    "LESS_EQUAL",
    "SHAPE",
    "RANK",
)
#: The same, of int8 only, and of uint8 only.
COMPUTED_INT8 = (
    "EXP",
    "LOG",
    "ABS",
    "SQRT",
    "RSQRT",
    "SQUARED_DIFFERENCE",
    "REDUCE_PROD",
    "BATCH_MATMUL",
    "PRELU",
)
COMPUTED_UINT8 = ("SUM",)
#: Move 8-bit integers or compare them in their order: no scale is needed.
SCALELESS = (
    "RESHAPE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "TRANSPOSE",
    "SLICE",
    "STRIDED_SLICE",
    "SPACE_TO_DEPTH",
    "DEPTH_TO_SPACE",
    "TILE",
    "REVERSE_V2",
    "BROADCAST_TO",
    "GATHER",
    "GATHER_ND",
    "PACK",
    "UNPACK",
    "SPLIT",
    "SPLIT_V",
    "SELECT",
    "SELECT_V2",
    "MAXIMUM",
    "MINIMUM",
    "ARG_MAX",
    "ARG_MIN",
    "SHAPE",
    "RANK",
    "CAST",
)


class Operands(NamedTuple):
    """Where an operator with weights has its inputs, and its output channels in the weights."""

    data: int
    bias: int
    output_axis: int


#: Operators with weights, which are input 1.
OPERANDS = {
    "CONV_2D": Operands(0, 2, 0),
    "DEPTHWISE_CONV_2D": Operands(0, 2, 3),
    "FULLY_CONNECTED": Operands(0, 2, 0),
    "TRANSPOSE_CONV": Operands(2, 3, 0),
}
#: Operators of one type to another.
TYPE_CHANGING = ("QUANTIZE", "DEQUANTIZE")
#: Operators whose sums are multiplied by the ratio of their scales: all inputs' product over the
#: output's, or the largest over it.
PRODUCTS = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "TRANSPOSE_CONV",
    "FULLY_CONNECTED",
    "BATCH_MATMUL",
    "MUL",
)
RATIOS = (
    "ADD",
    "SUB",
    "MEAN",
    "SUM",
    "ABS",
    "QUANTIZE",
    "CONCATENATION",
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "LEAKY_RELU",
)
#: From here on the smallest sum leaves 8 bits, and 32-bit ones overflow when LiteRT shifts them
#: left, which has no defined result.
MAX_RATIO = 256
#: Kernels that write in steps of their own and do not look at the output's scale (or refuse another
#: one) -> the scale, and the zero point of int8.
STEPS = {
    "SOFTMAX": (1 / 256, -128),
    "LOGISTIC": (1 / 256, -128),
    "L2_NORMALIZATION": (1 / 128, 0),
}
#: Kernels that compute other integers for uint8 than for int8.
BY_TYPE = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "TRANSPOSE_CONV",
    "AVERAGE_POOL_2D",
    "RESIZE_BILINEAR",
    "CONCATENATION",
    "L2_NORMALIZATION",
)
