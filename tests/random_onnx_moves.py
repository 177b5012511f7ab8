# SPDX-License-Identifier: Apache-2.0
"""Random ONNX operators that move elements.

In:   random_onnx_values.py: two models under construction.
Out:  Moves: each method draws an operator on x, and says whether it could.
Next: random_onnx.py makes networks of them.
"""

from __future__ import annotations

from math import prod

import numpy as np

from loadstone.graph import Quantization
from tests.random_onnx_values import Value, Values
from tests.random_tflite_values import MAX_ELEMENTS


class Moves(Values):
    """Operators that move elements: each draws itself on x, and says whether it could."""

    def concatenation(self, x: Value) -> bool:
        axis = self.draw.pick([1, 1, 1, 2, 3]) if len(x.shape) == 4 else 1
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        fitting = [
            v
            for v in self.values
            if len(v.shape) == len(x.shape) and v.shape[:axis] + v.shape[axis + 1 :] == rest
        ]
        parts = [x, *(self.draw.pick(fitting) for _ in range(self.draw.int(1, 2)))]
        return self.join(parts, axis, x.q if self.draw.chance(2) else self.spread(x.q.scale))

    def join(self, parts: list[Value], axis: int, q: Quantization) -> bool:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        if prod(shape) > 2 * MAX_ELEMENTS:
            return False
        self.trio("Concat", parts, tuple(shape), q, axis=axis)
        return True

    def slice(self, x: Value) -> bool:
        axes = self.draw.pick([[1], [2, 3]]) if len(x.shape) == 4 else [1]
        begins, ends, steps, shape = [], [], [], list(x.shape)
        for axis in axes:
            begins.append(
                self.draw.int(0, x.shape[axis] - 1) // (16 if self.draw.chance(3) else 1) * 1
            )
            ends.append(self.draw.int(begins[-1] + 1, x.shape[axis]))
            steps.append(self.draw.int(1, 2))
            shape[axis] = -(-(ends[-1] - begins[-1]) // steps[-1])
        self.trio(
            "Slice",
            [x],
            tuple(shape),
            x.q,
            tuple(np.array(v, np.int64) for v in (begins, ends, axes, steps)),
        )
        return True

    def pad(self, x: Value) -> bool:
        """By zeros."""
        if len(x.shape) != 4:
            return False
        pads = [
            0,
            0,
            self.draw.int(0, 3),
            self.draw.int(0, 3),
            0,
            0,
            self.draw.int(0, 3),
            self.draw.int(0, 3),
        ]
        shape = tuple(
            n + before + after for n, before, after in zip(x.shape, pads[:4], pads[4:], strict=True)
        )
        if prod(shape) > MAX_ELEMENTS:
            return False
        self.trio(
            "Pad", [x], shape, x.q, (np.array(pads, np.int64), np.float32(0)), mode="constant"
        )
        return True

    def reshape(self, x: Value) -> bool:
        choices = [(1, prod(x.shape[1:]))]
        if len(x.shape) == 4:
            choices += [
                (1, x.shape[1], 1, x.shape[2] * x.shape[3]),
                (1, x.shape[1], x.shape[3], x.shape[2]),
            ]
        else:
            choices += [(1, x.shape[1], 1, 1)]
        shape = self.draw.pick(choices)
        self.trio("Reshape", [x], shape, x.q, (np.array(shape, np.int64),))
        return True

    def transpose(self, x: Value) -> bool:
        if len(x.shape) != 4:
            return False
        permutation = self.draw.pick([(0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 1, 2)])
        self.trio(
            "Transpose", [x], tuple(x.shape[axis] for axis in permutation), x.q, perm=permutation
        )
        return True

    def resize(self, x: Value) -> bool:
        """By integer factors."""
        if len(x.shape) != 4:
            return False
        size = (x.shape[2] * self.draw.int(1, 3), x.shape[3] * self.draw.int(1, 3))
        if prod(size) * x.shape[1] > MAX_ELEMENTS:
            return False
        mode, rule = (
            self.draw.pick(["nearest", "linear"]),
            self.draw.pick(["asymmetric", "half_pixel", "align_corners"]),
        )
        options = {"mode": mode, "coordinate_transformation_mode": rule}
        if mode == "nearest":
            options["nearest_mode"] = "floor" if rule == "asymmetric" else "round_prefer_ceil"
        sizes = np.array([1, x.shape[1], *size], np.int64)
        self.trio("Resize", [x], (1, x.shape[1], *size), x.q, (None, None, sizes), **options)
        return True
