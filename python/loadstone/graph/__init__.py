# SPDX-License-Identifier: Apache-2.0
"""The quantized network as data: the contract between partition/eager.py and the back ends.

In:   nothing; partition/eager.py fills these dataclasses from composite Relax functions.
Out:  frozen dataclasses of integers, NumPy arrays and tensors, in execution order. No TVM, no file
      format.
Next: graph/reference.py defines the result of each operator; a back end lowers segments of them.

    base.py         Quantization, Tensor, Operator: the common parts
    weighted.py     convolution, dense layer
    elementwise.py  sums, products, changes of quantization, functions of one element
    pooling.py      pools and means
    reduction.py    sums and products over axes, L2 normalization, products of activations
    movement.py     moves of elements; resizes
    real.py         operators on real numbers, for devices of bfloat16
    planes.py       sums of int32 as planes of bytes
    network.py      Graph: operators in order; Host: a part that stays Relax

Conventions, everywhere:
  - activations are NHWC with the batch first, weights OHWI; a padding is (top, left, bottom, right)
    in elements;
  - real = scale * (q - zero_point); scales are float32 values; every int8 tensor that an operator
    reads or writes carries its `Quantization`, and no operator repeats it;
  - `low` and `high` are the clamp of the fused activation, already in the integers of the output;
  - `rounding` names the arithmetic of docs/numerics.md: FLOAT32 is the meaning of an ONNX QDQ
    model, DOUBLE (for dense layers SINGLE) that of a TFLite model. It decides the whole rule of an
    operator, not the last step alone.
"""

from __future__ import annotations

from loadstone.graph.base import Fields, Operator, Quantization, Tensor
from loadstone.graph.elementwise import (
    Add,
    ArgMax,
    Dequantize,
    Div,
    Elementwise,
    LayerNorm,
    Lookup,
    Mul,
    Quantize,
    Requantize,
    Softmax,
    SquaredDifference,
    Sub,
)
from loadstone.graph.movement import (
    Concatenate,
    Pad,
    Reshape,
    Resize,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Transpose,
)
from loadstone.graph.network import Graph, Host
from loadstone.graph.planes import PlaneConv2D, PlaneDense, PlaneWeighted
from loadstone.graph.pooling import AveragePool2D, MaxPool2D, Mean, Pool2D
from loadstone.graph.real import (
    RealBinary,
    RealClamp,
    RealConv2D,
    RealDense,
    RealMatMul,
    RealMean,
    RealPool2D,
    RealWeighted,
)
from loadstone.graph.reduction import BatchMatMul, L2Normalize, ReduceProduct, ReduceSum
from loadstone.graph.weighted import Conv2D, Dense, Weighted

__all__ = [
    "Add",
    "ArgMax",
    "AveragePool2D",
    "BatchMatMul",
    "Concatenate",
    "Conv2D",
    "Dense",
    "Dequantize",
    "Div",
    "Elementwise",
    "Fields",
    "Graph",
    "Host",
    "L2Normalize",
    "LayerNorm",
    "Lookup",
    "MaxPool2D",
    "Mean",
    "Mul",
    "Operator",
    "Pad",
    "PlaneConv2D",
    "PlaneDense",
    "PlaneWeighted",
    "Pool2D",
    "Quantization",
    "Quantize",
    "RealBinary",
    "RealClamp",
    "RealConv2D",
    "RealDense",
    "RealMatMul",
    "RealMean",
    "RealPool2D",
    "RealWeighted",
    "ReduceProduct",
    "ReduceSum",
    "Requantize",
    "Reshape",
    "Resize",
    "ResizeBilinear",
    "ResizeNearest",
    "Slice",
    "Softmax",
    "SquaredDifference",
    "Sub",
    "Tensor",
    "Transpose",
    "Weighted",
]
