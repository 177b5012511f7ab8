# SPDX-License-Identifier: Apache-2.0
"""Proofs that an artifact's streams compute its network, for every input.

In:   an artifact, and the file of the model that it was compiled from.
Out:  proved, not proved (where, and why), or unsupported (which step).
Next: commands/prove.py prints it.

    network.py       the network as plain records: what a reader gives, what the engine takes
    read_tflite.py   that network, from a .tflite file
    read_onnx.py     the same from an ONNX file, QDQ or QOperator
    requantize.py    what the frameworks' kernels make of a sum: one integer to one level

Nothing here imports the compiler: its mistakes would be on both sides of the comparison.
"""

from __future__ import annotations

__all__: list[str] = []
