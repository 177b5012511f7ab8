# SPDX-License-Identifier: Apache-2.0
"""What every quantized operator computes, exactly: whole operators in NumPy, each equal to a
framework's kernels.

    windows.py      exact int32 sums over windows and rows: shared by all
    fixed_point.py  exp and 1 / (1 + x) in 32-bit fixed point: under TFLite's SOFTMAX
    tflite/         integer operators, equal to LiteRT's reference kernels
    onnx/           operators between DequantizeLinear and QuantizeLinear, equal to ONNX Runtime

They are the oracle of the compiler's tests and the source of its constants (multipliers, tables,
clamps): slow, short, and tested against the frameworks on single-operator models. Activations are
NHWC, weights OHWI, int8.
A uint8 model is an int8 model: x - 128, zero point - 128; where a kernel breaks that, its function
says so.
"""
