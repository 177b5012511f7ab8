# SPDX-License-Identifier: Apache-2.0
"""Proofs that an artifact's streams compute its network, for every input.

In:   an artifact, and the file of the model that it was compiled from.
Out:  proved, not proved (where, and why), or unsupported (which step).
Next: commands/prove.py prints it.

    network.py       the network as plain records: what a reader gives, what the engine takes
    read_tflite.py   that network, from a .tflite file; tflite/ has its parts
    read_onnx.py     the same from an ONNX file, QDQ or QOperator; onnx/ has its parts
    requantize.py    what the frameworks' kernels make of a sum: one integer to one level
    fingerprints.py  sums of products, recognised by their values at random points
    products.py      sums of products of two elements each
    functions.py     functions of one sum or two bytes; equality.py: whether two are equal
    values.py        symbols of bytes, and what they are functions of
    near.py          bytes that are one level off, where that is asked for
    definition.py    a network as symbols; operators/ has a file for each family
    lanes.py         accumulators as symbols; machine.py: VTA's instructions on them,
                     runs.py: which of their steps can be carried out at once
    tokens.py        that every run of the queues computes what the order of the stream does
    host_steps.py    what the host does between programs; host_operators.py: operators as data
    proof.py         the verdict on an artifact; certificate.py: a proof as a file

Nothing here imports the compiler: its mistakes would be on both sides of the comparison.
"""

from __future__ import annotations

__all__: list[str] = []
