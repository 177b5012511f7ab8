# SPDX-License-Identifier: Apache-2.0
"""ONNX's NonMaxSuppression with a fixed number of places.

In:   a OnnxNode whose numbers of boxes and thresholds are constants, and whose result is an output
      of the model.
Out:  (batches * classes * max_output_boxes_per_class, 3) int64: batch, class and box of each box
      that is kept, in ONNX's order; rows of -1 behind them.
Next: importer.py binds it.

ONNX's number of rows is known only when the model runs, while an artifact's shapes are fixed. A
node that read the rows would take -1 for the last box, and is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.numerics import Array
from loadstone.relax.compat import constant, constant_int64, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

#: Stands for the score of a box that is no candidate any more; a real one is above.
_GONE = np.float32(-3.0e38)
#: Steps are copies of one another.
_MOST_BOXES = 200


@converter(
    "NonMaxSuppression",
    attributes="center_point_box",
    inputs=5,
    constants=(2, 3, 4),
    opsets=(10, ALL),
)
def _non_max_suppression(node: OnnxNode) -> Expr:
    """Of equal scores the first box. A score that is not above the threshold is none."""
    (batches, boxes, _), classes = node.extents(0), node.extents(1)[1]
    most = min(boxes, int(_number(node.constant(2), 0)))
    if not 1 <= most <= _MOST_BOXES:
        raise node.refusal(
            f"its max_output_boxes_per_class is {most} of {boxes} boxes, 1 to {_MOST_BOXES} are "
            "imported",
            f"cut the model before it, --outputs {' --outputs '.join(node.proto.input[:2])}, and "
            "choose among those boxes behind the artifact",
        )
    overlaps = _overlapping(node, float(_number(node.constant(3), 0)))
    scores = node.tensor(1)
    if node.constant(4) is not None:
        least = constant(np.float32(_number(node.constant(4), 0)))
        above = node.emit(relax.op.greater(scores, least))
        scores = node.emit(relax.op.where(above, scores, constant(_GONE)))
    rows = constant_int64(np.arange(batches).reshape(-1, 1) * boxes)
    places = constant_int64(np.arange(boxes).reshape(1, 1, -1))
    found, kept = list["Expr"](), list["Expr"]()
    for _ in range(most):
        best = node.emit(relax.op.argmax(scores, axis=2))  # (batches, classes)
        height = node.emit(relax.op.max(scores, axis=[2]))
        found.append(best)
        kept.append(node.emit(relax.op.greater(height, constant(_GONE))))
        row = node.emit(relax.op.take(overlaps, node.emit(relax.op.add(best, rows)), axis=0))
        own = node.emit(relax.op.equal(places, node.emit(relax.op.expand_dims(best, 2))))
        gone = node.emit(relax.op.logical_or(row, own))
        scores = node.emit(relax.op.where(gone, constant(_GONE), scores))
    return _rows(node, found, kept, (batches, classes, most))


def _number(given: Array | None, otherwise: float) -> float:
    return otherwise if given is None or not given.size else given.reshape(-1)[0].item()


def _overlapping(node: OnnxNode, threshold: float) -> Expr:
    """Whether the intersection of two boxes is more than `threshold` of their union,
    (batches * boxes, boxes); boxes without an area overlap none."""
    batches, boxes, _ = node.extents(0)
    moved = node.emit(relax.op.permute_dims(node.tensor(0), [2, 0, 1]))
    sides = [node.emit(relax.op.take(moved, constant_int64(i), axis=0)) for i in range(4)]
    if node.attributes["center_point_box"]:  # x, y, width, height
        halves = [node.emit(relax.op.divide(side, constant(np.float32(2)))) for side in sides[2:]]
        pairs = [
            (
                node.emit(relax.op.subtract(middle, half)),
                node.emit(relax.op.add(middle, half)),
            )
            for middle, half in zip(sides[:2], halves, strict=True)
        ]
    else:  # two corners, either first
        pairs = [
            (
                node.emit(relax.op.minimum(sides[axis], sides[axis + 2])),
                node.emit(relax.op.maximum(sides[axis], sides[axis + 2])),
            )
            for axis in (0, 1)
        ]
    spans = [node.emit(relax.op.subtract(high, low)) for low, high in pairs]
    area = node.emit(relax.op.multiply(*spans))
    zero = constant(np.float32(0))
    shared = list["Expr"]()
    for low, high in pairs:
        begin = relax.op.maximum(*_crossed(node, low))
        end = relax.op.minimum(*_crossed(node, high))
        span = node.emit(relax.op.subtract(node.emit(end), node.emit(begin)))
        shared.append(node.emit(relax.op.maximum(span, zero)))
    both = node.emit(relax.op.multiply(*shared))
    first, second = _crossed(node, area)
    either = node.emit(relax.op.subtract(node.emit(relax.op.add(first, second)), both))
    is_box = [node.emit(relax.op.greater(side, zero)) for side in (first, second, both)]
    ratio = node.emit(relax.op.divide(both, either))
    found = node.emit(relax.op.greater(ratio, constant(np.float32(threshold))))
    for condition in is_box:
        found = node.emit(relax.op.logical_and(found, condition))
    return node.emit(relax.op.reshape(found, [batches * boxes, boxes]))


def _crossed(node: OnnxNode, numbers: Expr) -> tuple[Expr, Expr]:
    """Of (batches, boxes): as rows and as columns of a table of pairs."""
    return node.emit(relax.op.expand_dims(numbers, 2)), node.emit(relax.op.expand_dims(numbers, 1))


def _rows(node: OnnxNode, found: list[Expr], kept: list[Expr], sizes: tuple[int, int, int]) -> Expr:
    """Boxes by batch, class and step, those that are kept first."""
    batches, classes, most = sizes
    total = batches * classes * most
    box = node.emit(relax.op.reshape(node.emit(relax.op.stack(found, axis=2)), [total, 1]))
    flat = node.emit(relax.op.reshape(node.emit(relax.op.stack(kept, axis=2)), [total]))
    batch_and_class = np.stack(
        [
            np.repeat(np.arange(batches), classes * most),
            np.tile(np.repeat(np.arange(classes), most), batches),
        ],
        1,
    )
    rows = node.emit(relax.op.concat([constant_int64(batch_and_class), box], axis=1))
    missing = constant_int64(np.full((1, 1), -1))
    column = node.emit(relax.op.reshape(flat, [total, 1]))
    rows = node.emit(relax.op.where(column, rows, missing))
    order = np.arange(total)
    first = constant(order.astype(np.float32))
    behind = constant((order + total).astype(np.float32))
    keys = node.emit(relax.op.where(flat, first, behind))
    places = node.emit(relax.op.argsort(keys, axis=0, dtype="int64"))
    return relax.op.take(rows, places, axis=0)
