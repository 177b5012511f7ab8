# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that move elements: shapes, pads, strides, orders, sizes.

In:   a random generator.
Out:  one function for each kind; those with one input return the operator's class, input, output
      and fields, the others a Graph.
Next: conformance/cases.py has them in its table.
"""

from __future__ import annotations

from loadstone import graph as g
from loadstone.conformance.draw import FRAMEWORKS, Rng, image, one, pick
from loadstone.numerics import Rounding

__all__ = [
    "Parts",
    "concatenate",
    "pad",
    "reshape",
    "resize",
    "resize_bilinear",
    "slices",
    "transpose",
]

#: An operator's class, input, output and fields.
Parts = tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]


def concatenate(rng: Rng) -> g.Graph:
    """Two inputs along the channels, in one quantization."""
    a = image(rng, "a")
    b = g.Tensor("b", (*a.shape[:3], int(pick(rng, (1, 16, 20)))), "int8", a.quantization)
    y = g.Tensor("y", (*a.shape[:3], a.shape[3] + b.shape[3]), "int8", a.quantization)
    return one(
        g.Concatenate(
            name="y",
            inputs=(a, b),
            outputs=(y,),
            axis=3,
            low=-128,
            high=127,
            rounding=pick(rng, FRAMEWORKS),
        )
    )


def pad(rng: Rng) -> g.Graph:
    """Up to two elements on each side of the plane, of the zero point."""
    x = image(rng)
    before, after = ((0, *(int(n) for n in rng.integers(0, 3, 2)), 0) for _ in range(2))
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    y = g.Tensor("y", shape, "int8", x.quantization)
    return one(
        g.Pad(name="y", inputs=(x,), outputs=(y,), before=before, after=after, value=x.zero_point)
    )


def slices(rng: Rng) -> Parts:
    """A part of the plane and of the channels, also with strides."""
    x = image(rng, channels=int(pick(rng, (5, 16, 48))))
    begin = (
        0,
        *(int(rng.integers(0, n // 2)) for n in x.shape[1:3]),
        int(pick(rng, (0, x.shape[3] // 3))),
    )
    strides = (1, *(int(n) for n in rng.integers(1, 3, 2)), 1)
    shape = (-(-(n - b) // s) for n, b, s in zip(x.shape, begin, strides, strict=True))
    return (
        g.Slice,
        x,
        g.Tensor("y", tuple(shape), "int8", x.quantization),
        {"begin": begin, "strides": strides},
    )


def reshape(rng: Rng) -> Parts:
    """Flat, one row, or height and width in each other's place."""
    x = image(rng)
    shape = pick(
        rng,
        (
            (1, x.size),
            (1, x.shape[1] * x.shape[2], 1, x.shape[3]),
            (1, x.shape[2], x.shape[1], x.shape[3]),
        ),
    )
    return g.Reshape, x, g.Tensor("y", shape, "int8", x.quantization), {}


def transpose(rng: Rng) -> Parts:
    """Two axes change places."""
    x, order = image(rng), pick(rng, ((0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2)))
    return (
        g.Transpose,
        x,
        g.Tensor("y", tuple(x.shape[n] for n in order), "int8", x.quantization),
        {"permutation": order},
    )


def resize(rng: Rng) -> g.Graph:
    """To the nearest, two or three times as large."""
    x, factor = image(rng), int(pick(rng, (2, 3)))
    y = g.Tensor(
        "y", (1, x.shape[1] * factor, x.shape[2] * factor, x.shape[3]), "int8", x.quantization
    )
    positions: g.Fields = {"align_corners": False, "half_pixel_centers": False}
    return one(
        g.ResizeNearest(name="y", inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE, **positions)
    )


def resize_bilinear(rng: Rng) -> Parts:
    """Two or four times as large, from corners or from centres."""
    x, factor = image(rng), int(pick(rng, (2, 4)))
    y = g.Tensor(
        "y", (1, x.shape[1] * factor, x.shape[2] * factor, x.shape[3]), "int8", x.quantization
    )
    fields = {
        "align_corners": False,
        "half_pixel_centers": bool(rng.integers(2)),
        "rounding": Rounding.DOUBLE,
    }
    return g.ResizeBilinear, x, y, fields
