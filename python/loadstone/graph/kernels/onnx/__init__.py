# SPDX-License-Identifier: Apache-2.0
"""ONNX operators between DequantizeLinear and QuantizeLinear: what a QDQ model means, in float32.

    levels.py       QuantizeLinear, DequantizeLinear, clamps: shared by all
    weighted.py     Conv, MatMul, Gemm
    elementwise.py  Add, Sub, Mul, LeakyRelu, Sigmoid, Softmax, LayerNormalization
    pooling.py      AveragePool, GlobalAveragePool, MaxPool, ReduceMean
    movement.py     Concat, Resize

In:   int8 activations, NHWC or any shape, with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: the compiler takes its constants from here, and its tests compare networks with these
      functions.

The functions have the names and arguments of tflite/, so that a caller chooses the module by the
model's rounding. Measured against ONNX Runtime 1.31 (tests/graph/kernels/onnx/), graph
optimisations off:

    operator                          equal to                           how it is computed
    conv_2d, fully_connected,         QLinearConv, QLinearMatMul, QGemm  integers, FLOAT32
      batch_matmul
    add, sub, mul, requantize, clip,  DequantizeLinear, operator,        float32, in the
      leaky_relu, concatenate,          QuantizeLinear                   order written
      pools, resize
    mean                              QLinearGlobalAveragePool           integers, FLOAT32
    logistic, softmax                 the same trio, but 1 in a million  float64: MLAS has an
                                                                         exp of its own
    layer_norm                        the same trio, but a few           exact sums, then float64;
                                        in a million                     ONNX Runtime sums float32

A float Conv or MatMul between Dequantize and Quantize sums in an order that the processor decides:
no definition could be equal to it. Its integer kernel, which ONNX Runtime puts in its place when it
optimises, is the meaning.
QLinearAdd, QLinearMul and QLinearAveragePool add the zero point before they round: they differ from
the trio at ties, where the zero point is odd.
"""

from __future__ import annotations

from loadstone.graph.kernels.onnx.elementwise import (
    add,
    layer_norm,
    leaky_relu,
    logistic,
    mul,
    softmax,
    sub,
)
from loadstone.graph.kernels.onnx.levels import (
    activation_range,
    dequantize,
    quantize,
    requantize,
)
from loadstone.graph.kernels.onnx.movement import (
    concatenate,
    resize_bilinear,
    resize_nearest_neighbor,
)
from loadstone.graph.kernels.onnx.pooling import (
    average_pool_2d,
    global_average_pool,
    max_pool_2d,
    mean,
    mean_scale,
)
from loadstone.graph.kernels.onnx.weighted import (
    batch_matmul,
    conv_2d,
    fully_connected,
)

__all__ = [
    "activation_range",
    "add",
    "average_pool_2d",
    "batch_matmul",
    "concatenate",
    "conv_2d",
    "dequantize",
    "fully_connected",
    "global_average_pool",
    "layer_norm",
    "leaky_relu",
    "logistic",
    "max_pool_2d",
    "mean",
    "mean_scale",
    "mul",
    "quantize",
    "requantize",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "softmax",
    "sub",
]
