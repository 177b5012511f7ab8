# SPDX-License-Identifier: Apache-2.0
"""The options of TFLite's operators.

In:   an operator's name and its table in the file.
Out:  what is wrong with its options, as the end of a sentence; None where nothing is.
Next: tflite_file.py refuses the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tflite

__all__ = ["wrong_option"]

MAX_WINDOW = 2**16


def wrong_option(code: str, table: Any) -> str | None:
    """The first fault of the options that an operator must have. code: BuiltinOperator."""
    if code not in _OPTIONS:
        return None
    kind = _OPTIONS[code]
    if table.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, kind):
        return f"does not carry {kind}"
    options = getattr(tflite, kind)()
    options.Init(table.BuiltinOptions().Bytes, table.BuiltinOptions().Pos)
    for name, number in _window(options):
        if name == "DepthMultiplier" and number == 0:
            continue  # unused by the kernels, which divide the channel counts
        if not 1 <= number <= MAX_WINDOW:
            return f"has {name} = {number}, outside [1, {MAX_WINDOW}]"
    return None


def _window(options: Any) -> Iterator[tuple[str, int]]:
    """The numbers that TVM would divide by."""
    for name in (
        "StrideH",
        "StrideW",
        "StrideD",
        "DilationHFactor",
        "DilationWFactor",
        "DilationDFactor",
    ):
        if hasattr(options, name):
            yield name, getattr(options, name)()
    for name in ("FilterHeight", "FilterWidth", "DepthMultiplier"):
        if hasattr(options, name):
            yield name, getattr(options, name)()


_OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "CONV_3D": "Conv3DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
}
