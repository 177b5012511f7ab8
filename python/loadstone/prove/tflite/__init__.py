# SPDX-License-Identifier: Apache-2.0
"""What a .tflite file means, for proofs: LiteRT's reference kernels, stated anew.

In:   bytes.
Out:  Tensors and operators of a ModelNetwork.
Next: read_tflite.py.

    file.py       the file as records
    graph.py      the network so far, and what operators ask of it
    operators.py  what each operator means
    weighted.py   sums of products
    levels.py     tables of levels, clamps, multipliers
    geometry.py   windows, slices, resizes
"""
