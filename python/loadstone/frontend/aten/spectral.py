# SPDX-License-Identifier: Apache-2.0
"""Short-time Fourier transforms, and what is done with their complex results.

In:   the arguments of an operator, tensors as Relax expressions; complex ones as real numbers with
      an axis of two behind all others, the real part first.
Out:  the same.
Next: torch.py emits them; a complex result that an operator beside these reads is refused there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.aten.build import Build, extents, importer, literal, stored, taken
from loadstone.frontend.aten.movement import edged
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["READS_COMPLEX"]

#: Operators that read complex tensors.
READS_COMPLEX = ("aten.view_as_real.default", "aten.abs.default")


@dataclass(frozen=True, eq=False)
class _Stft:
    """What aten.stft takes, but for what leaves the values as they are."""

    x: Expr
    n_fft: int
    hop_length: int | None
    win_length: int | None
    window: Expr
    normalized: bool
    onesided: bool | None
    center: bool = False
    pad_mode: str = "reflect"


@importer("aten.stft", gathers=_Stft, free=("align_to_window", "return_complex"))
def _stft(build: Build, said: _Stft) -> Expr:
    """(..., L) to (..., N, T, 2): frames times waves under the window, one product."""
    x, size = said.x, said.n_fft
    hop, width = said.hop_length or size // 4, said.win_length or size
    if said.center:
        x = edged(build, x, (size // 2, size // 2), said.pad_mode)
    starts = np.arange(0, extents(x)[-1] - size + 1, hop)
    frames = taken(build, x, starts[:, None] + np.arange(size), len(extents(x)) - 1)
    given = np.ones(width) if said.window is None else stored(said.window, "its window")
    window = np.zeros(size)
    window[(size - width) // 2 : (size - width) // 2 + width] = given
    count = size // 2 + 1 if said.onesided is not False else size
    turns = 2 * np.pi / size * (np.outer(np.arange(size), np.arange(count)) % size)
    waves = np.stack([np.cos(turns), -np.sin(turns)], -1) * window[:, None, None]
    waves = waves / (np.sqrt(size) if said.normalized else 1)
    flat = literal(waves.reshape(size, 2 * count).astype(np.float32))
    product = build.emit(relax.op.matmul(frames, flat))
    outer = extents(product)[:-2]
    parts = build.emit(relax.op.reshape(product, (*outer, len(starts), count, 2)))
    rank = len(outer)
    return relax.op.permute_dims(parts, [*range(rank), rank + 1, rank, rank + 2])


@importer("aten.view_as_real")
def _view_as_real(build: Build, x: Expr) -> Expr:
    return x


def magnitude(build: Build, x: Expr) -> Expr:
    """Of a complex tensor."""
    squares = build.emit(relax.op.multiply(x, x))
    return relax.op.sqrt(build.emit(relax.op.sum(squares, axis=[-1])))
