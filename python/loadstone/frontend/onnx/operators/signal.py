# SPDX-License-Identifier: Apache-2.0
"""ONNX's Fourier transforms, of whole signals and of frames.

In:   a OnnxNode; lengths are constants.
Out:  its result as a Relax expression: products with matrices of cosines and sines, computed in
      float64 when the model is imported.
Next: importer.py binds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.numerics import Array
from loadstone.relax.compat import constant, constant_int64, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter("DFT", attributes="axis inverse onesided", inputs=2, constants=(1,), opsets=(17, 19))
@converter("DFT", attributes="inverse onesided", inputs=3, constants=(1, 2), opsets=(20, ALL))
def _dft(node: OnnxNode) -> Expr:
    """(..., signal, ..., 1 or 2): real, or real and imaginary part."""
    extents = node.extents(0)
    said, axis = node.constant(1), int(node.attributes.get("axis", -2))
    named = node.constant(2)
    if named is not None:
        axis = int(named.reshape(-1)[0])
    axis %= len(extents)
    inverse, onesided = bool(node.attributes["inverse"]), bool(node.attributes["onesided"])
    size = 2 * (extents[axis] - 1) if inverse and onesided else extents[axis]
    size = size if said is None else int(said.reshape(-1)[0])
    if axis == len(extents) - 1 or extents[-1] > 2 or size < 1:
        raise node.refusal(
            f"its axis is {axis} of {list(extents)} and its length {size}", "export it anew"
        )
    if onesided and inverse != (extents[-1] == 2):
        raise node.refusal(
            f"its onesided is 1, its inverse {int(inverse)} and its input has {extents[-1]} parts: "
            "halves are of what is real",
            "export it with onesided=0",
        )
    back = [place for place in range(len(extents) - 1) if place != axis]
    moved = node.emit(relax.op.permute_dims(node.tensor(0), [len(extents) - 1, *back, axis]))
    parts = _parts(node, moved)
    if inverse and onesided:
        made = [_real_inverse(node, parts, size)]
    else:
        matrix = _matrix(extents[axis], size, inverse=inverse)
        made = _product(node, parts, matrix[:, : size // 2 + 1] if onesided else matrix)
    stacked = node.emit(relax.op.stack(made, axis=-1))  # (others..., results, parts)
    order = list(range(len(back)))
    return relax.op.permute_dims(stacked, [*order[:axis], len(back), *order[axis:], len(back) + 1])


def _parts(node: OnnxNode, x: Expr) -> list[Expr]:
    """Along the first axis, which is taken away."""
    count = (shape(x) or ())[0]
    return [node.emit(relax.op.take(x, constant_int64(part), axis=0)) for part in range(count)]


def _matrix(given: int, size: int, *, inverse: bool) -> Array:
    """(given, size), complex: what each input adds to each result. Inputs beyond the length are cut
    off; those that are missing are zeros."""
    turns = np.outer(np.arange(given), np.arange(size)) % size / size
    found: Array = np.exp((2j if inverse else -2j) * np.pi * turns) / (size if inverse else 1)
    found[size:] = 0
    return found


def _product(node: OnnxNode, parts: list[Expr], matrix: Array) -> list[Expr]:
    """Real and imaginary part along the last axis."""
    kind = node.dtype(0)
    real, imaginary = (constant(part.astype(kind)) for part in (matrix.real, matrix.imag))
    made = [node.emit(relax.op.matmul(parts[0], part)) for part in (real, imaginary)]
    if len(parts) == 2:
        others = [node.emit(relax.op.matmul(parts[1], part)) for part in (imaginary, real)]
        made = [
            node.emit(relax.op.subtract(made[0], others[0])),
            node.emit(relax.op.add(made[1], others[1])),
        ]
    return made


def _real_inverse(node: OnnxNode, parts: list[Expr], size: int) -> Expr:
    """Of the half of a spectrum whose other half mirrors it: all but the first and, of even length,
    the middle count twice."""
    bins = (shape(parts[0]) or ())[-1]
    twice = np.full((bins, 1), 2.0)
    twice[0] = 1
    if size % 2 == 0 and size // 2 < bins:
        twice[size // 2] = 1
    twice[size // 2 + 1 :] = 0
    matrix = _matrix(bins, size, inverse=True) * twice
    kind = node.dtype(0)
    real = node.emit(relax.op.matmul(parts[0], constant(matrix.real.astype(kind))))
    other = node.emit(relax.op.matmul(parts[1], constant(matrix.imag.astype(kind))))
    return node.emit(relax.op.subtract(real, other))


def _frames(node: OnnxNode) -> tuple[int, int, Array]:
    """Step and length of a frame, and its window, one-dimensional."""
    step, window, said = node.constant(1), node.constant(2), node.constant(3)
    if step is None or (window is None and said is None):
        raise node.refusal("it has no frame_step, or no length of a frame", "export it anew")
    given = np.zeros(0) if window is None else window.reshape(-1).astype(np.float64)
    size = given.size if said is None else int(said.reshape(-1)[0])
    return int(step.reshape(-1)[0]), size, np.ones(size) if window is None else given


@converter("STFT", attributes="onesided", inputs=4, constants=(1, 2, 3), opsets=(17, ALL))
def _stft(node: OnnxNode) -> Expr:
    """(batch, signal, 1 or 2) to (batch, frames, bins, 2)."""
    extents, onesided = node.extents(0), bool(node.attributes["onesided"])
    stride, size, curve = _frames(node)
    is_complex = len(extents) == 3 and extents[-1] == 2
    if len(curve) != size or stride < 1 or not 1 <= size <= extents[1] or (is_complex and onesided):
        raise node.refusal(
            f"its frames are {size} of {extents[1]} by {stride}, its window {len(curve)}, its "
            f"onesided {int(onesided)} of {'complex' if is_complex else 'real'} numbers",
            "export it anew",
        )
    starts = np.arange((extents[1] - size) // stride + 1) * stride
    places = constant_int64(starts[:, None] + np.arange(size))
    signal = node.emit(relax.op.reshape(node.tensor(0), [*extents[:2], -1]))
    moved = node.emit(relax.op.permute_dims(signal, [2, 0, 1]))
    frames = [node.emit(relax.op.take(part, places, axis=1)) for part in _parts(node, moved)]
    matrix = _matrix(size, size, inverse=False)[:, : size // 2 + 1 if onesided else size]
    return relax.op.stack(_product(node, frames, curve[:, None] * matrix), axis=-1)
