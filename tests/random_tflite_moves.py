# SPDX-License-Identifier: Apache-2.0
"""Random TFLite operators that move elements.

In:   random_tflite_values.py: a model under construction.
Out:  Moves: each method draws an operator on x, and says whether it could.
Next: random_tflite.py makes networks of them.
"""

from __future__ import annotations

from math import prod

from loadstone.graph import Quantization
from tests.random_tflite_computed import Geometry
from tests.random_tflite_values import MAX_ELEMENTS, MAX_MACS, Values
from tests.tflite_builder import Tensor


class Moves(Values):
    """Operators that move elements: each draws itself on x, and says whether it could."""

    def concatenation(self, x: Tensor) -> bool:
        """Of tensors that are there, along any axis; int8 ones have one quantization, as LiteRT
        demands."""
        axis = self.draw.pick([3, 3, 3, 1, 2]) if len(x.shape) == 4 else len(x.shape) - 1
        q = self.of(x)
        same = [
            t
            for t in self.tensors
            if len(t.shape) == len(x.shape)
            and t.shape[:axis] + t.shape[axis + 1 :] == x.shape[:axis] + x.shape[axis + 1 :]
        ]
        parts = [x] + [self.draw.pick(same) for _ in range(self.draw.int(0, 2))]
        if self.unsigned:
            return self.join(parts, axis, q if self.draw.chance(2) else self.spread(q.scale))
        parts = [part for part in parts if self.of(part) == q]
        if len(parts) == 1:
            parts.append(
                self.input(
                    (
                        *x.shape[:axis],
                        self.draw.channels() if axis == len(x.shape) - 1 else self.draw.int(1, 4),
                        *x.shape[axis + 1 :],
                    ),
                    q,
                )
            )
        return self.join(parts, axis, q)

    def join(self, parts: list[Tensor], axis: int, q: Quantization) -> bool:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        if prod(shape) > 2 * MAX_ELEMENTS:
            return False
        self.emit(
            "CONCATENATION",
            list(parts),
            tuple(shape),
            q,
            axis=axis if self.draw.chance(2) else axis - len(shape),
        )
        return True

    def slice(self, x: Tensor) -> bool:
        """Of pixels or channels; STRIDED_SLICE has steps."""
        axes = (
            self.draw.pick([(1, 2), (len(x.shape) - 1,), tuple(range(1, len(x.shape)))])
            if len(x.shape) == 4
            else (len(x.shape) - 1,)
        )
        begin, end, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        strided = self.draw.chance(2)
        for axis in axes:
            begin[axis] = self.draw.int(0, x.shape[axis] - 1)
            if axis == 3 and self.draw.chance(2):
                begin[axis] -= begin[axis] % 16
            end[axis] = self.draw.int(begin[axis] + 1, x.shape[axis])
            steps[axis] = self.draw.int(1, 2) if strided else 1
        shape = tuple(-(-(e - b) // s) for b, e, s in zip(begin, end, steps, strict=True))
        if strided:
            constants = [self.constant(values) for values in (begin, end, steps)]
            self.emit("STRIDED_SLICE", [x, *constants], shape, self.of(x))
        else:
            self.emit("SLICE", [x, self.constant(begin), self.constant(shape)], shape, self.of(x))
        return True

    def pad(self, x: Tensor) -> bool:
        """Asymmetric; often a convolution without padding follows, as converters write it for
        strides of 2."""
        if len(x.shape) != 4:
            return False
        pads = [
            (0, 0),
            (self.draw.int(0, 3), self.draw.int(0, 3)),
            (self.draw.int(0, 3), self.draw.int(0, 3)),
            (0, 0),
        ]
        if self.draw.chance(6):
            pads[3] = (self.draw.int(0, 3), self.draw.int(0, 3))
        shape = tuple(n + before + after for n, (before, after) in zip(x.shape, pads, strict=True))
        if prod(shape) > MAX_ELEMENTS:
            return False
        y = self.emit("PAD", [x, self.constant(pads)], shape, self.of(x))
        if self.draw.chance(2):
            geometry = Geometry(shape[1:3], (3, 3), self.draw.pick([(1, 1), (2, 2)]), (1, 1), False)
            out = self.draw.channels(64)
            if not geometry.empty and prod(geometry.output) * out * 9 * shape[3] <= MAX_MACS:
                w, bias, q = self.weights((out, 3, 3, shape[3]), y, out, 9 * shape[3], 0)
                self.emit(
                    "CONV_2D",
                    [y, w, bias],
                    (1, *geometry.output, out),
                    q,
                    **geometry.options,
                    **self.fused(),
                )
        return True

    def reshape(self, x: Tensor) -> bool:
        _, *rest = x.shape
        choices = [(1, prod(rest))]
        if len(x.shape) == 4:
            choices += [
                (1, rest[0] * rest[1], 1, rest[2]),
                (1, 1, rest[0] * rest[1], rest[2]),
                (1, rest[1], rest[0], rest[2]),
            ]
        else:
            choices += [(1, 1, 1, prod(rest))]
        shape = self.draw.pick(choices)
        self.emit("RESHAPE", [x, self.constant(shape)], shape, self.of(x), new_shape=list(shape))
        return True

    def transpose(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        permutation = self.draw.pick([(0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2)])
        self.emit(
            "TRANSPOSE",
            [x, self.constant(permutation)],
            tuple(x.shape[axis] for axis in permutation),
            self.of(x),
        )
        return True

    def resize(self, x: Tensor) -> bool:
        """By integer factors, nearest or bilinear, with any of the three rules of where samples
        lie."""
        if len(x.shape) != 4:
            return False
        factors = (self.draw.int(1, 3), self.draw.int(1, 3))
        size = (x.shape[1] * factors[0], x.shape[2] * factors[1])
        if prod(size) * x.shape[3] > MAX_ELEMENTS:
            return False
        align_corners, half_pixel_centers = self.draw.pick(
            [(False, False), (True, False), (False, True)]
        )
        kind = self.draw.pick(["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
        flags = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
        self.emit(kind, [x, self.constant(size)], (1, *size, x.shape[3]), self.of(x), **flags)
        return True
