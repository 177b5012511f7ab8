# SPDX-License-Identifier: Apache-2.0
"""A TFLite model of int8 under construction, after a float ONNX one: what its tensors are.

In:   an ONNX model whose shapes are inferred, samples.
Out:  Values: tensors of the TFLite model by their ONNX name, in ONNX's order of axes or with the
      channels last, with the scales that the samples give, as TFLite's converter chooses them.
Next: as_tflite.py writes the operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.onnx_builder import session
from tests.tflite_builder import Graph, Tensor

__all__ = ["NotInTflite", "Values"]

Array = NDArray[Any]
Grid = tuple[float, int]


class NotInTflite(Exception):
    """TFLite has no such operator of int8."""


class Values:
    """Tensors by their ONNX name."""

    def __init__(self, model: onnx.ModelProto, samples: Sequence[Array]) -> None:
        self.onnx = model.graph
        self.graph = Graph()
        self.constants = {t.name: numpy_helper.to_array(t) for t in self.onnx.initializer}
        self.seen = _seen(model, samples)
        self.readers: dict[str, list[Any]] = {}
        for node in self.onnx.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self._plain: dict[str, Tensor] = {}
        self._last: dict[str, Tensor] = {}

    # --- what is known of a name --------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """In ONNX's order."""
        return tuple(
            self.constants[name].shape if name in self.constants else self.seen[name][0].shape
        )

    def only_reader(self, name: str, *kinds: str) -> Any:
        """The one node that reads it, if it is of such a kind."""
        found = self.readers.get(name, [])
        if any(entry.name == name for entry in self.onnx.output):
            return None
        return found[0] if len(found) == 1 and found[0].op_type in kinds else None

    def grid(self, name: str) -> Grid:
        """Scale and zero point of what the samples made of it."""
        return grid_of(self.seen[name])

    def is_last(self, name: str) -> bool:
        """Whether its channels are last already."""
        return name in self._last

    # --- tensors ------------------------------------------------------------------------------

    def define(self, name: str, tensor: Tensor, *, last: bool = False) -> None:
        """tensor holds it; last: with the channels last."""
        (self._last if last else self._plain)[name] = tensor

    def plain(self, name: str) -> Tensor:
        """In ONNX's order of axes."""
        if name not in self._plain:
            if name in self.constants:
                self._plain[name] = self.constant(self.constants[name])
            else:
                held, rank = self._last[name], len(self.shape(name))
                if rank == 3:
                    held = self.reshaped(held, (1, *held.shape[2:]))
                self._plain[name] = self.turned(held, (0, rank - 1, *range(1, rank - 1)))
        return self._plain[name]

    def last(self, name: str) -> Tensor:
        """(1, H, W, C), (1, 1, W, C) for three axes."""
        if name not in self._last:
            if name in self.constants:
                return self.constant(_channels_last(self.constants[name]))
            rank = len(self.shape(name))
            held = self.turned(self._plain[name], (0, *range(2, rank), 1))
            if rank == 3:
                held = self.reshaped(held, (1, 1, *held.shape[1:]))
            self._last[name] = held
        return self._last[name]

    def constant(self, array: Array) -> Tensor:
        """Of int8, in steps of its own; integers are what they are."""
        if array.dtype.kind in "iu":
            return self.graph.constant(array.astype(np.int32))
        scale, zero = grid_of([array])
        steps = np.clip(np.rint(array / scale) + zero, -128, 127).astype(np.int8)
        return self.graph.constant(steps if steps.ndim else steps.reshape(1), scale, zero)

    def emit(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        shape: Sequence[int],
        grid: Grid,
        **options: Any,
    ) -> Tensor:
        """An operator of int8; what it gives."""
        y = self.graph.tensor(shape, np.int8, *grid)
        self.graph.operator(kind, inputs, [y], **options)
        return y

    def moved(
        self, kind: str, x: Tensor, shape: Sequence[int], *more: Sequence[int], **options: Any
    ) -> Tensor:
        """An operator that keeps the scale; more: its lists of integers."""
        lists = [self.graph.constant(np.asarray(entry, np.int32)) for entry in more]
        return self.emit(kind, [x, *lists], shape, grid_like(x), **options)

    def reshaped(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same bytes."""
        if x.shape == tuple(shape):
            return x
        return self.moved("RESHAPE", x, shape, list(shape), new_shape=list(shape))

    def turned(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Axes in another order; as RESHAPE where that is the same."""
        shape = [x.shape[axis] for axis in order]
        large = [axis for axis in order if x.shape[axis] > 1]
        if large == sorted(large):
            return self.reshaped(x, shape)
        return self.moved("TRANSPOSE", x, shape, list(order))

    def in_steps(self, x: Tensor, grid: Grid) -> Tensor:
        """Requantized, unless it is in these steps."""
        if np.allclose(x.scale[0], grid[0], rtol=1e-6) and x.zero_point[0] == grid[1]:
            return x
        return self.emit("QUANTIZE", [x], x.shape, grid)


def grid_of(arrays: Sequence[Array]) -> Grid:
    """From the smallest to the largest, zero among them."""
    low = min(0.0, *(float(a.min()) for a in arrays), 0.0)
    high = max(0.0, *(float(a.max()) for a in arrays), 0.0)
    scale = float(np.float32(max(high - low, 1e-6) / 255))
    return scale, int(np.clip(np.rint(-128 - low / scale), -128, 127))


def grid_like(x: Tensor) -> Grid:
    """Those of a tensor."""
    return float(x.scale[0]), int(x.zero_point[0])


def _channels_last(array: Array) -> Array:
    """A constant that is broadcast against (N, C, H, W) or (N, C, W)."""
    if array.ndim < 3:
        return array
    array = np.moveaxis(array.reshape((1,) * (array.ndim == 3) + array.shape), -3, -1)
    return np.ascontiguousarray(array)


def _seen(model: onnx.ModelProto, samples: Sequence[Array]) -> dict[str, list[Array]]:
    """Every value, for every sample."""
    watched = onnx.ModelProto.FromString(model.SerializeToString())
    have = {entry.name for entry in watched.graph.output}
    names = [name for node in watched.graph.node for name in node.output if name]
    watched.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in have)
    opened = session(watched.SerializeToString())
    (entry,) = opened.get_inputs()
    found: dict[str, list[Array]] = {entry.name: list(samples)}
    for sample in samples:
        results = opened.run(None, {entry.name: sample})
        for out, array in zip(opened.get_outputs(), results, strict=True):
            found.setdefault(out.name, []).append(array)
    return found
