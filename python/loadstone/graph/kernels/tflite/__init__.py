"""TFLite's integer operators, equal bit for bit to the reference kernels of LiteRT 2.3
(BUILTIN_REF).

    levels.py       real values to int8 and back, clamps: shared by all
    weighted.py     CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED
    elementwise.py  ADD, SUB, MUL, LEAKY_RELU
    functions.py    SOFTMAX, LOGISTIC, HARD_SWISH
    pooling.py      AVERAGE_POOL_2D, MAX_POOL_2D, MEAN
    movement.py     CONCATENATION, PAD, RESIZE_*

In:   int8 activations, NHWC or any shape, with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: the compiler takes its constants from here, and its tests compare networks with these
      functions.

Every function was measured against LiteRT on single-operator models
(tests/graph/kernels/test_tflite.py).

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
"""

from __future__ import annotations

from loadstone.graph.kernels.tflite.elementwise import (
    ADD_PRE_SHIFT,
    AddConstants,
    add,
    add_constants,
    leaky_relu,
    mul,
    mul_scale,
    sub,
)
from loadstone.graph.kernels.tflite.functions import (
    hard_swish,
    logistic,
    softmax,
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
from loadstone.graph.kernels.tflite.weighted import (
    conv_2d,
    fully_connected,
)

__all__ = [
    "ADD_PRE_SHIFT",
    "AddConstants",
    "activation_range",
    "add",
    "add_constants",
    "average_pool_2d",
    "bilinear_taps",
    "bilinear_taps_uint8",
    "concatenate",
    "conv_2d",
    "dequantize",
    "fully_connected",
    "hard_swish",
    "leaky_relu",
    "logistic",
    "max_pool_2d",
    "mean",
    "mean_multiplier",
    "mul",
    "mul_scale",
    "pad",
    "quantize",
    "requantize",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "softmax",
    "sub",
]
