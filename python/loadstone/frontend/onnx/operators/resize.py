# SPDX-License-Identifier: Apache-2.0
"""ONNX's Resize and Upsample, of any rank.

In:   an OnnxNode; resampling.py says which elements each axis reads.
Out:  its result as a Relax expression: image.resize2d where that means the same, so that a device
      recognises it; else the elements that each result reads, weighted and summed.
Next: importer.py binds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import Attributes, OnnxNode
from loadstone.frontend.onnx.operators.resampling import (
    COORDINATES,
    AxisSamples,
    ResizedAxis,
    exact_nearest,
    nearest,
    weighted,
)
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.numerics import Array
from loadstone.relax.compat import constant, constant_int64, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

_ATTRIBUTES = (
    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
    "extrapolation_value keep_aspect_ratio_policy mode nearest_mode"
)
#: Before opset 11, and in Upsample, neither is an attribute.
_OLD = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "simple"}
_KNOWN = {
    "coordinate_transformation_mode": tuple(COORDINATES),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "mode": ("nearest", "linear", "cubic"),
    "nearest_mode": ("simple", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
}
#: Coordinates that image.resize2d and the devices have, and how they round to the nearest.
_BY_RELAX = {
    "asymmetric": "floor",
    "half_pixel": "round_prefer_ceil",
    "align_corners": "round_prefer_ceil",
}


@converter("Upsample", attributes="mode scales", inputs=2, constants=(1,), opsets=(7, 9))
@converter("Resize", attributes=_ATTRIBUTES, inputs=4, constants=(1, 2, 3), opsets=(10, ALL))
def _resize(node: OnnxNode) -> Expr:
    attributes = _checked(node)
    x, axes, mode = node.tensor(0), _axes(node, attributes), attributes["mode"]
    if mode == "nearest":
        read = [nearest(axis, attributes["nearest_mode"]) for axis in axes]
    else:
        read = [weighted(axis, mode, attributes) for axis in axes]
    known = _by_relax(node, axes, read, mode) if axes else x
    if known is not None:
        return known
    if mode == "linear" and not attributes.get("antialias"):
        x = _summed(node, x, axes, read)  # all axes at once, as it is defined
    else:
        for axis, samples in reversed(list(zip(axes, read, strict=True))):
            x = _summed(node, x, [axis], [samples])
    return _extrapolated(node, x, axes, read)


def _checked(node: OnnxNode) -> Attributes:
    """Its attributes; raises UnsupportedError for values that ONNX does not define."""
    attributes = {**_OLD, **node.attributes}
    if attributes["mode"] == "bilinear":  # Upsample-1's name
        attributes["mode"] = "linear"
    for name, known in _KNOWN.items():
        if name in attributes and attributes[name] not in known:
            raise node.refusal(
                f"its {name} is {attributes[name]}, which ONNX does not define", "export it anew"
            )
    if attributes["mode"] != "nearest" and "float" not in node.dtype(0):
        raise node.refusal(
            f"its mode is {attributes['mode']} and its input {node.dtype(0)}, whose rounding is "
            "not defined",
            "resize floats, or use the mode nearest",
        )
    return attributes


def _axes(node: OnnxNode, attributes: Attributes) -> list[ResizedAxis]:
    """Those that are resized, by number."""
    extents = node.extents(0)
    named = [
        int(axis) % len(extents) for axis in node.attributes.get("axes") or range(len(extents))
    ]
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    scales, made = _scales_and_sizes(node, [extents[axis] for axis in named], policy)
    coordinates = attributes["coordinate_transformation_mode"]
    found = [
        ResizedAxis(number, extents[number], size, scale, coordinates, roi)
        for number, size, scale, roi in zip(
            named, made, scales, _roi(node, coordinates, len(named)), strict=True
        )
    ]
    for axis in found:
        if not axis.scale > 0 or axis.made < 1:
            raise node.refusal(
                f"axis {axis.number} of {axis.size} would be {axis.made}", "use a larger scale"
            )
        if _is_disputed(axis, found, antialias=bool(attributes.get("antialias"))):
            raise node.refusal(
                f"its scale along axis {axis.number} is {axis.scale:g} and leaves "
                f"{axis.made} elements, where ONNX and its runtimes do not agree on what is read",
                "export it with another size",
            )
    return sorted((axis for axis in found if axis.is_resized), key=lambda axis: axis.number)


def _scales_and_sizes(
    node: OnnxNode, extents: Sequence[int], policy: str
) -> tuple[Array, list[int]]:
    """Of each axis that is resized, one-dimensional. extents: of these axes."""
    scales, sizes = _given(node, len(extents))
    lengths = np.asarray(extents, np.float32)
    if scales is not None:
        return scales, [int(size) for size in scales * lengths]
    assert sizes is not None
    scales = np.asarray(sizes.astype(np.float32) / lengths)
    if policy == "stretch":
        return scales, [int(size) for size in sizes]
    ratio = scales.min() if policy == "not_larger" else scales.max()
    scales = np.full(len(extents), ratio, np.float32)
    return scales, [int(np.floor(size + np.float32(0.5))) for size in scales * lengths]


def _is_disputed(axis: ResizedAxis, axes: Sequence[ResizedAxis], *, antialias: bool) -> bool:
    """A roi of the same size, which runtimes do not read; a scale that changes no size, which they
    leave out if it is the only one, or filters; corners of a smaller result whose exact size is not
    whole: ONNX's tests align those of the exact size, its text those of the result."""
    if axis.scale == 1:
        return axis.roi != (0, 1)
    if axis.coordinates == "align_corners" and axis.scale < 1:
        return abs(float(axis.scale) * axis.size - axis.made) > 1e-3
    same = [other.size == other.made for other in axes]
    return all(same) or (antialias and axis.size == axis.made)


def _given(node: OnnxNode, count: int) -> tuple[Array | None, Array | None]:
    """Scales, float32, or sizes, int64: `count` of one of them."""
    is_old = node.op_type == "Upsample" or node.opset < 11
    found = [node.constant(1), None] if is_old else [node.constant(2), node.constant(3)]
    if "scales" in node.attributes:  # of Upsample up to opset 8
        found[0] = np.asarray(node.attributes["scales"], np.float32)
    scales, sizes = (None if e is None or not e.size else e.reshape(-1) for e in found)
    if (scales is None) == (sizes is None):
        raise node.refusal("it has not either scales or sizes", "export it anew")
    said = scales if sizes is None else sizes
    if said is None or len(said) != count:
        raise node.refusal(f"its scales or sizes are not {count}", "export it anew")
    return scales, sizes


def _roi(node: OnnxNode, coordinates: str, count: int) -> list[tuple[float, float]]:
    if coordinates != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    roi = node.constant(1)
    if roi is None or roi.size != 2 * count:
        raise node.refusal(f"its roi has not {2 * count} numbers", "export it anew")
    flat = [float(part) for part in roi.reshape(-1)]
    return list(zip(flat[:count], flat[count:], strict=True))


def _by_relax(
    node: OnnxNode, axes: Sequence[ResizedAxis], read: Sequence[AxisSamples], mode: str
) -> Expr | None:
    """image.resize2d; None where none of its coordinates reads the same elements by the same
    weights."""
    sizes = list(node.extents(0)[2:])
    if len(sizes) != 2 or axes[0].number < 2 or mode == "cubic" or node.dtype(0) != "float32":
        return None
    for axis in axes:
        sizes[axis.number - 2] = axis.made
    for coordinates, rounding in _BY_RELAX.items():
        if coordinates == "align_corners" and 1 in sizes:
            continue  # TVM divides by the number of gaps
        plain = [
            replace(
                axis, coordinates=coordinates, scale=np.float32(axis.made) / np.float32(axis.size)
            )
            for axis in axes
        ]
        others = [
            exact_nearest(axis) if mode == "nearest" else weighted(axis, mode, {}) for axis in plain
        ]
        if all(one.is_like(other) for one, other in zip(read, others, strict=True)):
            return relax.op.image.resize2d(
                node.tensor(0),
                tuple(sizes),
                layout="NCHW",
                method="nearest_neighbor" if mode == "nearest" else mode,
                coordinate_transformation_mode=coordinates,
                rounding_method=rounding,
            )
    return None


def _summed(
    node: OnnxNode, x: Expr, axes: Sequence[ResizedAxis], read: Sequence[AxisSamples]
) -> Expr:
    """Along these axes together: what is read, times the product of the weights, summed."""
    for axis, samples in zip(axes, read, strict=True):
        x = node.emit(relax.op.take(x, constant_int64(samples.places.reshape(-1)), axis.number))
    weights = {
        axis.number: samples.weights
        for axis, samples in zip(axes, read, strict=True)
        if samples.weights is not None
    }
    if not weights:
        return x
    split, taps, starts = list[int](), list[int](), dict[int, int]()
    for number, extent in enumerate(shape(x) or ()):
        starts[number] = len(split)
        if number in weights:
            taps.append(len(split) + 1)
        split += weights[number].shape if number in weights else (extent,)
    factors = []
    for number, factor in weights.items():
        after = len(split) - starts[number] - 2
        factors.append(factor.reshape(*(1,) * starts[number], *factor.shape, *(1,) * after))
    product = reduce(np.multiply, reversed(factors))  # the last axis first, as runtimes do
    x = node.emit(relax.op.reshape(x, split))
    x = node.emit(relax.op.multiply(x, constant(product.astype(node.dtype(0)))))
    return node.emit(relax.op.sum(x, taps))


def _extrapolated(
    node: OnnxNode, x: Expr, axes: Sequence[ResizedAxis], read: Sequence[AxisSamples]
) -> Expr:
    """extrapolation_value where any axis of a roi reaches beyond the elements."""
    rank = len(node.extents(0))
    for axis, samples in zip(axes, read, strict=True):
        if samples.outside.any():
            mask = samples.outside.reshape([-1] + [1] * (rank - 1 - axis.number))
            value = np.asarray(node.attributes["extrapolation_value"], node.dtype(0))
            x = node.emit(relax.op.where(constant(mask), constant(value), x))
    return x
