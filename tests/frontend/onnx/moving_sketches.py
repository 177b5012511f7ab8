# SPDX-License-Identifier: Apache-2.0
"""How a random node of each ONNX operator that moves elements is drawn.

In:   a Sketch.
Out:  MOVEMENT: by operator, what fills a Sketch.
Next: sketches.py has them with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.frontend.onnx.sweep import Sketch

__all__ = ["MOVEMENT"]

Fill = Callable[[Sketch], None]


def _pad(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(2, 11, 13, 18, 19)
    mode = s.one("constant", "edge", "reflect", *(["wrap"] if s.opset > 18 else []))
    low = -1 if mode == "constant" else 0
    pads = [s.number(low, min(3, n - 1)) for n in (*shape, *shape)]
    s.input(s.values(shape))
    s.maybe(mode=mode)
    if s.opset < 11:
        s.attributes["pads"] = pads
        s.maybe(value=1.5)
        return
    if s.opset > 13 and s.rng.integers(2):
        axes = [int(a) for a in s.rng.permutation(len(shape))[: s.number(1, len(shape))]]
        s.constant([pads[a] for a in axes] + [pads[a + len(shape)] for a in axes])
        s.constant(1.5, "float32")
        s.constant([a - len(shape) if s.rng.integers(2) else a for a in axes])
        return
    s.constant(pads)
    if s.rng.integers(2):
        s.constant(1.5, "float32")


def _split(s: Sketch) -> None:
    shape = s.shape()
    axis = s.axis(len(shape))
    s.opset = s.one(2, 11, 13, 18)
    axis = axis % len(shape) if s.opset < 11 else axis
    s.outputs = s.number(1, shape[axis])
    s.input(s.values(shape))
    s.attributes["axis"] = axis
    cuts = np.sort(s.rng.permutation(np.arange(1, shape[axis]))[: s.outputs - 1])
    sizes = np.diff([0, *cuts.tolist(), shape[axis]]).tolist()
    if s.opset < 13:
        s.attributes["split"] = sizes
    elif s.opset < 18 or s.rng.integers(2):
        s.constant(sizes)
    else:
        s.attributes["num_outputs"] = s.outputs


def _slice(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(9, 10, 13)
    axes = [int(a) for a in s.rng.permutation(len(shape))[: s.number(1, len(shape))]]
    s.input(s.values(shape))
    begins = [s.number(-6, 5) for _ in axes]
    ends = [s.one(s.number(-6, 7), 2**31 - 1) for _ in axes]
    if s.opset < 10:
        s.attributes |= {"starts": begins, "ends": ends, "axes": axes}
        return
    s.constant(begins)
    s.constant(ends)
    s.constant([a - len(shape) if s.rng.integers(2) else a for a in axes])
    if s.rng.integers(2):
        s.constant([s.one(1, 2, 3, -1, -2) for _ in axes])


def _depth(s: Sketch) -> None:
    block = s.number(1, 3)
    s.opset = s.one(9, 11, 13)
    s.input(s.values((s.number(1, 2), block**2 * s.number(1, 3), s.number(1, 4), s.number(1, 4))))
    s.attributes["blocksize"] = block
    if s.opset > 9:
        s.maybe(mode=s.one("DCR", "CRD"))


def _space(s: Sketch) -> None:
    block = s.number(1, 3)
    s.opset = s.one(1, 13)
    sizes = (s.number(1, 2), s.number(1, 3), block * s.number(1, 3), block * s.number(1, 3))
    s.input(s.values(sizes))
    s.attributes["blocksize"] = block


def _reverse(s: Sketch) -> None:
    shape = s.shape(2)
    time = s.number(0, 1)
    s.opset = 10
    s.input(s.values(shape))
    s.constant([s.number(0, shape[time]) for _ in range(shape[1 - time])])
    s.attributes |= {"time_axis": time, "batch_axis": 1 - time}


def _reshape(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(5, 13, 14)
    s.input(s.values(shape))
    new = [*shape[: s.number(0, len(shape))], -1]
    s.constant(
        [
            0 if k < len(shape) and n == shape[k] and s.rng.integers(2) else n
            for k, n in enumerate(new)
        ]
    )


def _axes(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(1, 11, 13)
    at = s.number(0, len(shape))
    s.input(s.values((*shape[:at], 1, *shape[at:])))
    axes = [at - len(shape) - 1 if s.opset > 10 and s.rng.integers(2) else at]
    if s.opset < 13:
        s.attributes["axes"] = axes
    else:
        s.constant(axes)


def _unsqueeze(s: Sketch) -> None:
    shape = s.shape(0, 3)
    s.opset = s.one(1, 11, 13)
    count = s.number(1, 2)
    axes = [int(a) for a in s.rng.permutation(len(shape) + count)[:count]]
    axes = [a - len(shape) - count if s.opset > 10 and s.rng.integers(2) else a for a in axes]
    s.input(s.values(shape))
    if s.opset < 13:
        s.attributes["axes"] = axes
    else:
        s.constant(axes)


def _transpose(s: Sketch) -> None:
    shape = s.shape()
    s.input(s.values(shape, s.one("float32", "int8", "int64")))
    s.maybe(perm=[int(a) for a in s.rng.permutation(len(shape))])


def _flatten(s: Sketch) -> None:
    shape = s.shape()
    s.opset = s.one(9, 11, 13)
    s.input(s.values(shape))
    s.maybe(axis=s.number(-len(shape) if s.opset > 9 else 0, len(shape)))


def _expand(s: Sketch) -> None:
    shape = s.shape()
    s.input(s.values(s.broadcast(shape), s.one("float32", "int64", "bool")))
    s.constant(s.broadcast(shape) if s.rng.integers(3) == 0 else shape)


def _tile(s: Sketch) -> None:
    shape = s.shape()
    s.input(s.values(shape))
    s.constant([s.number(1, 3) for _ in shape])


def _concat(s: Sketch) -> None:
    shape = s.shape()
    axis = s.axis(len(shape))
    s.opset = s.one(4, 11, 13)
    axis = axis % len(shape) if s.opset < 11 else axis
    for _ in range(s.number(1, 4)):
        own = list(shape)
        own[axis] = s.number(1, 4)
        s.input(s.values(own))
    s.attributes["axis"] = axis


MOVEMENT: Mapping[str, Fill] = {
    "Pad": _pad,
    "Split": _split,
    "Slice": _slice,
    "DepthToSpace": _depth,
    "SpaceToDepth": _space,
    "ReverseSequence": _reverse,
    "Reshape": _reshape,
    "Squeeze": _axes,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Expand": _expand,
    "Tile": _tile,
    "Concat": _concat,
}
