# SPDX-License-Identifier: Apache-2.0
"""Resize to the nearest element: which element of the input each of the output's is.

In:   nodes; the OnnxGraph that they add to.
Out:  values of their outputs, and operators of the network.
Next: operators.py names it in its table.

Positions are float32, as ONNX Runtime has them. Where one lies between two elements to the last
bits of float32, the order of its operations decides, which no document states: that is refused,
unless the factor is exact, and the position with it. A resize between elements is computed in real
numbers, which no proof covers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.onnx.file import NodeRecord
from loadstone.prove.onnx.graph import OnnxGraph
from loadstone.prove.onnx.moves import move, tensor_of
from loadstone.prove.onnx.values import Reals, Value

__all__ = ["resize"]

_HALF, _NEAR = np.float32(0.5), np.float32(1e-4)


def resize(g: OnnxGraph, node: NodeRecord) -> Value:
    """Resize of rows and columns, by sizes or by factors."""
    _, shape, _ = tensor_of(g, node)
    mode = str(node.attributes.get("mode", "nearest"))
    if mode != "nearest" or len(shape) != 4:
        raise g.refusal(
            node, f"resizes {len(shape)} axes, mode {mode}", "nearest of rows and columns is read"
        )
    factors = _factors(g, node, shape)
    made = []
    for extent, (size, scale) in zip(shape, factors, strict=True):
        index = np.arange(size) if scale == 1 else _nearest(g, node, extent, size, scale)
        made.append(np.clip(index, 0, extent - 1))
    if any(size != extent for extent, (size, _) in zip(shape[:2], factors[:2], strict=True)):
        raise g.refusal(node, f"resizes {list(shape)}", "rows and columns are resized")
    sizes = [size for size, _ in factors]
    return move(
        g, node, "resize_nearest", sizes, {"layout": "NCHW", "rows": made[2], "columns": made[3]}
    )


def _factors(
    g: OnnxGraph, node: NodeRecord, shape: tuple[int, ...]
) -> list[tuple[int, np.float32]]:
    """The output's extent and the factor along each axis."""
    sizes = g.integers(node, 3) if g.value(node, 3) is not None else ()
    if len(sizes) == len(shape):
        return [(n, np.float32(n) / np.float32(m)) for n, m in zip(sizes, shape, strict=True)]
    place = 2 if g.model.opset > 10 else 1
    scales = g.constant(node, place).reshape(-1).astype(np.float32)
    if sizes or len(scales) != len(shape):
        raise g.refusal(node, "has no size for each axis", "state sizes or scales of all axes")
    return [(int(n * scale), scale) for n, scale in zip(shape, scales, strict=True)]


def _nearest(g: OnnxGraph, node: NodeRecord, extent: int, size: int, scale: np.float32) -> Integers:
    """Which element (size,) each is, before they are kept inside."""
    kind = str(node.attributes.get("coordinate_transformation_mode", "half_pixel"))
    place = _places(kind, extent, size, scale)
    if place is None:
        raise g.refusal(node, f"has positions {kind}", "export it with others")
    rounding = str(node.attributes.get("nearest_mode", "round_prefer_floor"))
    if rounding not in _ROUNDED:
        raise g.refusal(node, f"rounds {rounding}", "export it with floor")
    between = np.abs(place - np.floor(place) - _HALF) < _NEAR * np.maximum(place, 1)
    is_exact = kind == "align_corners" or Fraction(float(scale)) == Fraction(size, extent)
    if rounding.startswith("round") and between.any() and not is_exact:
        raise g.refusal(
            node,
            f"takes elements at ties, of {extent} to {size} with {kind}",
            "export it with nearest_mode floor",
        )
    return np.asarray(_ROUNDED[rounding](place), np.int64)


def _places(kind: str, extent: int, size: int, scale: np.float32) -> Reals | None:
    """Positions (size,) in the input; None for a mode that is not known."""
    place = np.arange(size, dtype=np.float32)
    match kind:
        case "half_pixel":
            return (place + _HALF) / scale - _HALF
        case "pytorch_half_pixel":
            return (place + _HALF) / scale - _HALF if size > 1 else 0 * place
        case "asymmetric":
            return place / scale
        case "align_corners":
            return place * np.float32(extent - 1) / np.float32(max(size - 1, 1))
        case _:
            return None


_ROUNDED: Mapping[str, Callable[[Reals], Reals]] = {
    "round_prefer_floor": lambda place: np.ceil(place - _HALF),
    "round_prefer_ceil": lambda place: np.floor(place + _HALF),
    "floor": np.floor,
    "ceil": np.ceil,
}
