# SPDX-License-Identifier: Apache-2.0
"""How a random normalization, or a sampling of an image at given places, is drawn.

In:   a Sketch.
Out:  NORMALIZATION, SAMPLING: by operator, what fills a Sketch.
Next: sweep.py makes models of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tests.frontend.onnx.sweep import Array, Sketch

__all__ = ["NORMALIZATION", "SAMPLING"]

Fill = Callable[[Sketch], None]


def _given(s: Sketch, value: Array, *, computed: bool) -> None:
    if computed:
        s.input(value)
    else:
        s.constant(value, str(value.dtype))


def _image(s: Sketch, channels: int, low: int = 0, high: int = 3) -> tuple[int, ...]:
    """(batch, channels, ...)"""
    return (s.number(1, 3), channels, *(s.number(1, 5) for _ in range(s.number(low, high))))


def _epsilon(s: Sketch) -> None:
    s.maybe(epsilon=s.one(1e-5, 1e-3, 0.1, 0.5))


def _batch_normalization(s: Sketch) -> None:
    s.opset, kind = s.one(7, 9, 14, 15), s.one("float32", "float32", "float64")
    channels, computed = s.number(1, 4), not s.rng.integers(3)
    s.input(s.values(_image(s, channels), kind))
    for place in range(4):
        drawn = s.values((channels,), kind)
        _given(s, np.abs(drawn) + 0.1 if place == 3 else drawn, computed=computed)
    s.attributes["epsilon"] = s.one(1e-5, 1e-3, 0.1, 0.5)
    s.maybe(momentum=0.7)


def _instance_normalization(s: Sketch) -> None:
    s.opset, channels = s.one(6, 17), s.number(1, 4)
    computed = not s.rng.integers(3)
    s.input(s.values(_image(s, channels, 1)))
    for _ in range(2):
        _given(s, s.values((channels,)), computed=computed)
    _epsilon(s)


def _group_normalization(s: Sketch) -> None:
    s.opset, groups = s.one(18, 21), s.number(1, 3)
    channels = groups * s.number(1, 3)
    computed = not s.rng.integers(3)
    s.input(s.values(_image(s, channels, 1)))
    for _ in range(2):
        drawn = s.values((groups if s.opset == 18 else channels,))
        _given(s, drawn, computed=computed)
    s.attributes["num_groups"] = groups
    _epsilon(s)


def _lrn(s: Sketch) -> None:
    s.opset = s.one(1, 13)
    s.input(s.values(_image(s, s.number(1, 6), 2, 2)))
    s.attributes["size"] = s.one(1, 3, 5, 7)
    s.maybe(alpha=s.one(1e-4, 0.1, 2.0), beta=s.one(0.5, 0.75, 1.5), bias=s.one(1.0, 0.5, 2.0))


def _mean_variance(s: Sketch) -> None:
    """Of opset 9 ONNX Runtime has a kernel that divides one number by a deviation of 0."""
    image = _image(s, s.number(1, 4), 2, 2)
    s.input(s.values(image))
    s.maybe(axes=s.one([0, 2, 3], [1], [2, 3], [0, 1, 2, 3]))
    axes = s.attributes.get("axes", [0, 2, 3])
    s.opset = s.one(9, 13) if max(image[axis] for axis in axes) > 1 else 13


NORMALIZATION: Mapping[str, Fill] = {
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _lrn,
    "MeanVarianceNormalization": _mean_variance,
}


def _grid_sample(s: Sketch) -> None:
    """Also beyond the image, and with results that lie exactly on its elements and edges."""
    s.opset = s.one(16, 20, 22)
    sizes = [s.number(1, 5) for _ in range(2 if s.opset == 16 else s.number(2, 3))]
    batch = s.number(1, 2)
    s.input(s.values((batch, s.number(1, 3), *sizes)))
    _given(s, _grid(s, batch, sizes), computed=bool(s.rng.integers(2)))
    modes = ("bilinear", "nearest", "bicubic") if s.opset == 16 else ("linear", "nearest", "cubic")
    mode = s.one(*modes) if len(sizes) == 2 else s.one(*modes[:2])
    s.maybe(
        mode=mode, padding_mode=s.one("zeros", "border", "reflection"), align_corners=s.one(0, 1)
    )


def _grid(s: Sketch, batch: int, sizes: Sequence[int]) -> Array:
    shape = (batch, *(s.number(1, 4) for _ in sizes), len(sizes))
    if s.rng.integers(3):
        return s.values(shape, scale=s.one(0.5, 1.0, 3.0))
    return (s.rng.integers(-8, 9, shape) / 4).astype(np.float32)


SAMPLING: Mapping[str, Fill] = {"GridSample": _grid_sample}
