# SPDX-License-Identifier: Apache-2.0
"""A module as the bytes of an ONNX file.

In:   an IRModule.
Out:  the file, its outputs called out0, out1, ...
Next: test_export_onnx.py, test_onnx_moves.py.
"""

from __future__ import annotations

from typing import Any

from loadstone.quantization.export_onnx import export_onnx


def exported(found: Any, count: int = 1) -> bytes:
    return bytes(export_onnx(found, [f"out{index}" for index in range(count)]).SerializeToString())
