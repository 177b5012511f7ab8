# SPDX-License-Identifier: Apache-2.0
"""Random float networks, quantized by the tools that people use: ONNX Runtime's quantize_static,
PyTorch's PT2E. `python -m tests.quantizers` compiles and compares them, by number."""
