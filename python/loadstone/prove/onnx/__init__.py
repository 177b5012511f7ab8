# SPDX-License-Identifier: Apache-2.0
"""What a quantized ONNX file means, for proofs: ONNX Runtime's kernels, stated anew.

In:   bytes.
Out:  Tensors and operators of a ModelNetwork.
Next: read_onnx.py.

    file.py       the file as records
    values.py     what a name stands for: constants, levels, functions of levels
    graph.py      the network so far, from levels to real numbers and back
    operators.py  what each operator means
    weighted.py   sums of products
    averages.py   sums that are divided
    resize.py     elements that are repeated or left out
    moves.py      what moves elements, and what is known before the network runs
"""
