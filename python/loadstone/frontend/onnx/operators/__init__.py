# SPDX-License-Identifier: Apache-2.0
"""Converters of ONNX's operators, one file a family; importing this fills the table.

In:   OnnxNode.
Out:  table.py's CONVERTERS.
Next: importer.py looks them up.
"""

from loadstone.frontend.onnx.operators import (
    arithmetic,
    columns,
    convolution,
    detection,
    dynamic,
    elementwise,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    regions,
    resize,
    selection,
    shapes,
    signal,
    tvm_converters,
)

__all__ = [
    "arithmetic",
    "columns",
    "convolution",
    "detection",
    "dynamic",
    "elementwise",
    "movement",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "regions",
    "resize",
    "selection",
    "shapes",
    "signal",
    "tvm_converters",
]
