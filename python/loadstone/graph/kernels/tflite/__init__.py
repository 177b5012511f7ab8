# SPDX-License-Identifier: Apache-2.0
"""TFLite's integer operators, equal bit for bit to the reference kernels of LiteRT 2.3
(BUILTIN_REF).

    levels.py       real values to int8 and back, clamps: shared by all
    weighted.py     CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL
    elementwise.py  ADD, SUB, MUL, DIV, SQUARED_DIFFERENCE, LEAKY_RELU
    functions.py    SOFTMAX, LOGISTIC, HARD_SWISH, ABS, RSQRT, SQRT
    pooling.py      AVERAGE_POOL_2D, MAX_POOL_2D, MEAN
    reduction.py    SUM (uint8), REDUCE_PROD, L2_NORMALIZATION
    movement.py     CONCATENATION, PAD, RESIZE_*

In:   int8 activations, NHWC or any shape, with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: the compiler takes its constants from here, and its tests compare networks with these
      functions.

Every function was measured against LiteRT on single-operator models
(tests/graph/kernels/tflite/).

    operator                              scale is computed in      rounding
    CONV_2D, DEPTHWISE_CONV_2D            float64 (uint8: float32   DOUBLE
                                          product of input, weight)
    FULLY_CONNECTED                       float64                   half away from zero on float64;
                                          nearly SINGLE
    ADD, SUB                              float64 of float32        DOUBLE, three times, inputs
                                          shifted left by 20
    MUL                                   float32                   DOUBLE
    LEAKY_RELU                            float32                   DOUBLE
    RELU*, QUANTIZE (integer to integer)  float64                   DOUBLE
    MEAN                                  float64, over the count   DOUBLE
    AVERAGE_POOL_2D                       none                      half away from zero
    RESIZE_BILINEAR                       10 fractional bits        half away from zero
    QUANTIZE (float32 to integer)         float32                   half away from zero
    SOFTMAX                               31 fractional bits        DOUBLE (fixed_point.py)
    LOGISTIC                              float32                   half away from zero
    HARD_SWISH                            float32, 15 bits          16-bit fixed point
    BATCH_MATMUL                          float32 product           DOUBLE
    SUM of uint8                          float64                   DOUBLE
    REDUCE_PROD                           float64, 15 bits          half up, behind every factor
    L2_NORMALIZATION                      28 fractional bits        DOUBLE
    SQUARED_DIFFERENCE                    float64 of float32        DOUBLE, three times, inputs
                                                                    shifted left by 7
    DIV                                   float32                   31 fractional bits, DOUBLE
    ABS                                   float32                   DOUBLE
    RSQRT                                 float64 of a float32 root 20 fractional bits, DOUBLE
    SQRT                                  float32                   down
"""

from __future__ import annotations

from loadstone.graph.kernels.tflite.elementwise import (
    ADD_PRE_SHIFT,
    DIFFERENCE_PRE_SHIFT,
    AddConstants,
    add,
    add_constants,
    div,
    div_scale,
    leading_sign_bits,
    leaky_relu,
    mul,
    mul_scale,
    squared_difference,
    sub,
)
from loadstone.graph.kernels.tflite.functions import (
    absolute,
    hard_swish,
    logistic,
    rsqrt,
    softmax,
    square_root,
)
from loadstone.graph.kernels.tflite.levels import (
    activation_range,
    dequantize,
    quantize,
    requantize,
)
from loadstone.graph.kernels.tflite.movement import (
    bilinear_taps,
    bilinear_taps_uint8,
    concatenate,
    pad,
    resize_bilinear,
    resize_nearest_neighbor,
)
from loadstone.graph.kernels.tflite.pooling import (
    average_pool_2d,
    max_pool_2d,
    mean,
    mean_multiplier,
)
from loadstone.graph.kernels.tflite.reduction import (
    l2_normalize,
    reduce_product,
    reduce_sum,
)
from loadstone.graph.kernels.tflite.weighted import (
    batch_matmul,
    conv_2d,
    fully_connected,
)

__all__ = [
    "ADD_PRE_SHIFT",
    "DIFFERENCE_PRE_SHIFT",
    "AddConstants",
    "absolute",
    "activation_range",
    "add",
    "add_constants",
    "average_pool_2d",
    "batch_matmul",
    "bilinear_taps",
    "bilinear_taps_uint8",
    "concatenate",
    "conv_2d",
    "dequantize",
    "div",
    "div_scale",
    "fully_connected",
    "hard_swish",
    "l2_normalize",
    "leading_sign_bits",
    "leaky_relu",
    "logistic",
    "max_pool_2d",
    "mean",
    "mean_multiplier",
    "mul",
    "mul_scale",
    "pad",
    "quantize",
    "reduce_product",
    "reduce_sum",
    "requantize",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "rsqrt",
    "softmax",
    "square_root",
    "squared_difference",
    "sub",
]
