# SPDX-License-Identifier: Apache-2.0
"""TFLite_Detection_PostProcess, the custom operator that ends SSD networks: boxes, classes, scores.

In:   the operator, and its options as a FlexBuffer; the interface of tflite.py for such operators.
Out:  its four outputs: boxes (1, D, 4), classes (1, D), scores (1, D), count (1,).
Next: tflite.py converts it by DETECTION; the host runs it as C.

LiteRT sorts boxes by score, and each box that is kept removes those that overlap it. Here the best
remaining box is selected D times, which keeps the same boxes in the same order, in a known number
of steps. Rows after the count, which LiteRT does not write, are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flatbuffers import flexbuffers

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import TfliteTable
from loadstone.frontend.tflite_integers import Stateful
from loadstone.relax.compat import constant, constant_int64, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["DETECTION"]

#: What reading damaged options raises.
_DAMAGE = (
    *(KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError),
    AssertionError,
)
#: Stands for the score of a box that is no candidate; a real one is above.
_GONE = np.float32(-3.0e38)
#: Steps are copies of one another.
_MAX_DETECTIONS = 200


@dataclass(frozen=True)
class _Options:
    detections: int
    classes: int
    least_score: float
    most_overlap: float
    #: What encodings of y, x, height and width are divided by.
    scales: tuple[float, ...]


def _options(table: TfliteTable) -> _Options:
    """Raises UnsupportedError for what is damaged, or not known."""
    raw = table.CustomOptionsAsNumpy()
    try:
        found: dict[str, float] = flexbuffers.Loads(bytes(raw))
        options = _Options(
            int(found["max_detections"]),
            int(found["num_classes"]),
            float(found["nms_score_threshold"]),
            float(found["nms_iou_threshold"]),
            tuple(float(found[f"{axis}_scale"]) for axis in "yxhw"),
        )
        per_box = int(found["max_classes_per_detection"])
        regular = bool(found.get("use_regular_nms", False))
    except _DAMAGE as error:
        raise UnsupportedError(f"its options cannot be read: {error!r}") from None
    if regular or per_box != 1:
        raise UnsupportedError(
            f"use_regular_nms is {regular}, max_classes_per_detection {per_box}: known are False "
            "and 1 (convert with the fast non-maximum suppression), or cut it with --outputs"
        )
    if not 1 <= options.detections <= _MAX_DETECTIONS:
        raise UnsupportedError(
            f"max_detections is {options.detections}: 1 to {_MAX_DETECTIONS} are known"
        )
    if not 0 < options.most_overlap <= 1 or not all(options.scales):
        raise UnsupportedError(
            f"nms_iou_threshold is {options.most_overlap:g}, its scales are {options.scales}: the "
            "first is in (0, 1], and no scale is 0"
        )
    return options


def _double(value: float) -> Expr:
    return relax.const(value, "float64")


class _Detector:
    def __init__(self, converter: Stateful, options: _Options) -> None:
        self.emit, self.options = converter.bb.emit, options
        self.encodings, self.predictions, self.anchors = (
            self.emit(converter.real(k)) for k in range(3)
        )
        sizes = [shape(expr) or () for expr in (self.encodings, self.predictions, self.anchors)]
        self.count = sizes[0][1] if len(sizes[0]) == 3 else 0
        self.background = (sizes[1][2] if len(sizes[1]) == 3 else 0) - options.classes
        if (
            sizes[0][:2] != sizes[1][:2]
            or sizes[0][0] != 1
            or sizes[0][2] < 4
            or sizes[2] != (self.count, 4)
            or self.background not in (0, 1)
        ):
            raise UnsupportedError(
                f"boxes {list(sizes[0])}, scores {list(sizes[1])} and anchors {list(sizes[2])} do "
                f"not fit together with {options.classes} classes and a batch of 1"
            )

    def _column(self, x: Expr, index: int) -> Expr:
        """(N,) float64 of what has N rows."""
        rows = self.emit(relax.op.reshape(x, (self.count, -1)))
        column = self.emit(relax.op.strided_slice(rows, [1], [index], [index + 1]))
        return self.emit(relax.op.astype(self.emit(relax.op.reshape(column, (-1,))), "float64"))

    def _divided(self, index: int) -> Expr:
        scale = _double(float(np.float32(self.options.scales[index])))
        return self.emit(relax.op.divide(self._column(self.encodings, index), scale))

    def boxes(self) -> list[Expr]:
        """Lowest y and x, highest y and x: (N,) float32 each, by float64 as LiteRT does."""
        low, high = [], []
        for axis in (0, 1):
            extent = self._column(self.anchors, 2 + axis)
            moved = self.emit(relax.op.multiply(self._divided(axis), extent))
            centre = self._single(self.emit(relax.op.add(moved, self._column(self.anchors, axis))))
            grown = self.emit(relax.op.exp(self._divided(2 + axis)))
            halved = self.emit(relax.op.multiply(grown, _double(0.5)))
            half = self._single(self.emit(relax.op.multiply(halved, extent)))
            low.append(self.emit(relax.op.subtract(centre, half)))
            high.append(self.emit(relax.op.add(centre, half)))
        return low + high

    def _single(self, x: Expr) -> Expr:
        return self.emit(relax.op.astype(x, "float32"))

    def best_classes(self) -> tuple[Expr, Expr]:
        """(N,): the score of the best class of each box, and which it is as float32."""
        flat = self.emit(relax.op.reshape(self.predictions, (self.count, -1)))
        end = self.background + self.options.classes
        scores = self.emit(relax.op.strided_slice(flat, [1], [self.background], [end]))
        best = self.emit(relax.op.max(scores, axis=[1]))
        return best, self._single(self.emit(relax.op.argmax(scores, axis=1)))

    def overlap(self, boxes: list[Expr], areas: Expr, place: Expr) -> Expr:
        """(N,): the intersection of every box with one, over their union; 0 without an area."""
        emit, zero = self.emit, constant(np.float32(0))
        one = [emit(relax.op.take(edge, place, axis=0)) for edge in boxes]
        sides = []
        for axis in (0, 1):
            low = emit(relax.op.maximum(boxes[axis], one[axis]))
            high = emit(relax.op.minimum(boxes[2 + axis], one[2 + axis]))
            sides.append(emit(relax.op.maximum(emit(relax.op.subtract(high, low)), zero)))
        both = emit(relax.op.multiply(*sides))
        area = emit(relax.op.take(areas, place, axis=0))
        union = emit(relax.op.subtract(emit(relax.op.add(area, areas)), both))
        # without an area there is no intersection either, and then the union may be 0
        some = emit(relax.op.greater(both, zero))
        safe = emit(relax.op.where(some, union, constant(np.float32(1))))
        return emit(relax.op.divide(both, safe))

    def detected(self) -> list[Expr]:
        """The operator's outputs."""
        emit, options = self.emit, self.options
        boxes, (scores, classes) = self.boxes(), self.best_classes()
        sides = [emit(relax.op.subtract(boxes[2 + axis], boxes[axis])) for axis in (0, 1)]
        areas = emit(relax.op.multiply(*sides))
        least, gone = constant(np.float32(options.least_score)), constant(_GONE)
        most, zero = constant(np.float32(options.most_overlap)), constant(np.float32(0))
        left = emit(relax.op.where(emit(relax.op.greater_equal(scores, least)), scores, gone))
        places = constant_int64(np.arange(self.count))
        rows: list[list[Expr]] = []
        for _ in range(options.detections):
            best = emit(relax.op.argmax(left, axis=0, keepdims=True))
            found = emit(relax.op.greater(emit(relax.op.take(left, best, axis=0)), gone))
            picked = [
                emit(relax.op.where(found, emit(relax.op.take(x, best, axis=0)), zero))
                for x in (*boxes, classes, scores)
            ]
            rows.append([*picked, self._single(found)])
            covered = emit(relax.op.greater(self.overlap(boxes, areas, best), most))
            taken = emit(relax.op.logical_or(covered, emit(relax.op.equal(places, best))))
            left = emit(relax.op.where(taken, gone, left))
        together = emit(relax.op.concat([entry for row in rows for entry in row], axis=0))
        table = emit(relax.op.reshape(together, (1, options.detections, 7)))
        columns = [
            emit(relax.op.strided_slice(table, [2], [a], [b]))
            for a, b in ((0, 4), (4, 5), (5, 6), (6, 7))
        ]
        flat = [emit(relax.op.reshape(column, (1, -1))) for column in columns[1:]]
        return [columns[0], *flat[:2], relax.op.sum(flat[2], axis=[1])]


def _detection(converter: Stateful, op: TfliteTable) -> None:
    record = converter.record
    if (len(record.inputs), len(record.outputs)) != (3, 4) or min(record.inputs) < 0:
        raise UnsupportedError(
            f"it has {len(record.inputs)} inputs and {len(record.outputs)} outputs, not 3 and 4"
        )
    detector = _Detector(converter, _options(op))
    for index, expr in zip(record.outputs, detector.detected(), strict=True):
        converter.give(index, expr)


DETECTION: Mapping[str, Callable[[Stateful, TfliteTable], None]] = {
    "CUSTOM TFLite_Detection_PostProcess": _detection,
}
