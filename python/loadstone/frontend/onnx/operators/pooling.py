# SPDX-License-Identifier: Apache-2.0
"""ONNX's pooling over windows, and over whole images.

In:   an OnnxNode, channels first, of one, two or three spatial dimensions.
Out:  its result, or results, as Relax expressions.
Next: importer.py binds them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.operators.windows import Windows, windows_of
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import constant, constant_int64, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

_MAXIMA = {1: relax.op.nn.max_pool1d, 2: relax.op.nn.max_pool2d, 3: relax.op.nn.max_pool3d}
_MEANS = {1: relax.op.nn.avg_pool1d, 2: relax.op.nn.avg_pool2d, 3: relax.op.nn.avg_pool3d}
_WINDOW = "auto_pad ceil_mode dilations kernel_shape pads strides"


def _windows(node: OnnxNode) -> Windows:
    rank = len(node.extents(0)) - 2
    if rank not in _MAXIMA:
        raise node.refusal(f"it has {rank} spatial dimensions, 1 to 3 are imported", "reshape it")
    found = windows_of(node, node.attributes["kernel_shape"])
    if node.attributes["auto_pad"] in ("SAME_UPPER", "SAME_LOWER") and _is_disputed(found):
        raise node.refusal(
            f"its auto_pad is {node.attributes['auto_pad']} with strides {list(found.strides)} and "
            f"dilations {list(found.dilations)}, where ONNX and its runtimes do not agree on the "
            "padding",
            "export it with pads",
        )
    return found


def _is_disputed(found: Windows) -> bool:
    """Runtimes leave dilations out of SAME_UPPER and SAME_LOWER, and some crop where a stride is
    larger than its window by two or more."""
    return any(
        (dilation > 1 and taps > 1) or (count - 1) * stride + taps + 1 < size
        for size, taps, stride, dilation, count in zip(
            found.sizes, found.kernel, found.strides, found.dilations, found.outputs, strict=True
        )
    )


def _end_pads(found: Windows) -> list[int]:
    """The padding with which whole windows cover what ceil_mode covers."""
    afters = [a + over for a, over in zip(found.after, found.overhang, strict=True)]
    return [*found.before, *afters]


def _checked_pads(node: OnnxNode, found: Windows) -> None:
    """A window that lies in the padding alone has no largest element, and no mean."""
    if not found.read()[1].any(axis=1).all() or min(found.pads) < 0:
        raise node.refusal(
            f"its pads are {found.pads}, and windows of {list(found.kernel)} do not all reach an "
            "element",
            "export it with less padding",
        )


@converter("MaxPool", attributes=_WINDOW + " storage_order", outputs=2)
def _max_pool(node: OnnxNode) -> list[Expr | None]:
    """Padding never wins. Of equal elements Indices has the first one's place."""
    found = _windows(node)
    _checked_pads(node, found)
    if len(node.proto.output) < 2 or not node.proto.output[1]:
        made = _MAXIMA[len(found.sizes)](
            node.tensor(0),
            pool_size=list(found.kernel),
            strides=list(found.strides),
            padding=_end_pads(found),
            dilation=list(found.dilations),
        )
        return [made, None]
    batch, channels = node.extents(0)[:2]
    places = found.read()[0]
    kind = node.dtype(0)
    least = float(np.finfo(kind).min if "float" in kind else np.iinfo(kind).min)
    taps = _taps(node, found, least)
    best = node.emit(relax.op.argmax(taps, axis=3))
    orders = found.by_columns(places) if node.attributes["storage_order"] else places
    rows = np.arange(len(places)) * places.shape[1]
    at = node.emit(relax.op.add(best, constant_int64(rows.reshape(1, 1, -1))))
    inner = node.emit(relax.op.take(constant_int64(orders.reshape(-1)), at, axis=0))
    images = np.arange(batch * channels).reshape(batch, channels, 1) * math.prod(found.sizes)
    indices = node.emit(relax.op.add(inner, constant_int64(images)))
    shape = [batch, channels, *found.outputs]
    return [
        relax.op.reshape(node.emit(relax.op.max(taps, axis=3)), shape),
        relax.op.reshape(indices, shape),
    ]


def _taps(node: OnnxNode, found: Windows, outside: float) -> Expr:
    """The elements of each window, (N, C, windows, taps); `outside` in the padding's place."""
    batch, channels = node.extents(0)[:2]
    places, inside = found.read()
    flat = node.emit(relax.op.reshape(node.tensor(0), [batch, channels, -1]))
    taken = node.emit(relax.op.take(flat, constant(places.reshape(-1)), axis=2))
    taps = node.emit(relax.op.reshape(taken, [batch, channels, *places.shape]))
    if inside.all():
        return taps
    fill = constant(np.asarray(outside, node.dtype(0)))
    return node.emit(relax.op.where(constant(inside), taps, fill))


@converter("AveragePool", attributes=_WINDOW + " count_include_pad")
def _average_pool(node: OnnxNode) -> Expr:
    """count_include_pad counts the padding, and never what ceil_mode hangs over: zeros that are
    padded before, and an end that is not counted."""
    found, x = _windows(node), node.tensor(0)
    _checked_pads(node, found)
    pads = _end_pads(found)
    counts = bool(node.attributes.get("count_include_pad", 0)) and any(found.pads)
    if counts and any(found.overhang):
        pairs = zip(found.before, found.after, strict=True)
        widths = [0, 0, 0, 0, *(size for pair in pairs for size in pair)]
        x = node.emit(relax.op.nn.pad(x, widths), f"{node.proto.output[0]}/padded")
        pads, counts = [*(0 for _ in found.before), *found.overhang], False
    return _MEANS[len(found.sizes)](
        x,
        pool_size=list(found.kernel),
        strides=list(found.strides),
        padding=pads,
        dilation=list(found.dilations),
        count_include_pad=counts,
    )


@converter("LpPool", attributes=_WINDOW + " p", opsets=(2, 1 << 30))
def _lp_pool(node: OnnxNode) -> Expr:
    found = _windows(node)
    taps = _taps(node, found, 0)
    shape = [*node.extents(0)[:2], *found.outputs]
    return relax.op.reshape(_norm(node, taps, [3], int(node.attributes["p"])), shape)


@converter("GlobalLpPool", attributes="p", opsets=(2, 1 << 30))
def _global_lp_pool(node: OnnxNode) -> Expr:
    axes = list(range(2, len(node.extents(0))))
    return _norm(node, node.tensor(0), axes, int(node.attributes["p"]), keepdims=True)


def _norm(node: OnnxNode, x: Expr, axes: list[int], p: int, *, keepdims: bool = False) -> Expr:
    """The p-th root of the sum of the magnitudes to the p."""
    kind = node.dtype(0)
    if p < 1:
        raise node.refusal(f"its p is {p}, and a norm's is 1 or more", "export the model anew")
    if p == 2:
        total = relax.op.sum(node.emit(relax.op.multiply(x, x)), axes, keepdims)
        return node.emit(relax.op.sqrt(node.emit(total)))
    size = node.emit(relax.op.abs(x))
    if p == 1:
        return node.emit(relax.op.sum(size, axes, keepdims))
    powers = node.emit(relax.op.power(size, constant(np.asarray(p, kind))))
    total = node.emit(relax.op.sum(powers, axes, keepdims))
    return node.emit(relax.op.power(total, constant(np.asarray(1 / p, kind))))


@converter("GlobalAveragePool")
def _global_average_pool(node: OnnxNode) -> Expr:
    return relax.op.mean(node.tensor(0), list(range(2, len(node.extents(0)))), keepdims=True)


@converter("GlobalMaxPool")
def _global_max_pool(node: OnnxNode) -> Expr:
    extents = node.extents(0)
    if len(extents) == 4:
        return relax.op.nn.max_pool2d(node.tensor(0), pool_size=extents[2:])
    return relax.op.max(node.tensor(0), axis=list(range(2, len(extents))), keepdims=True)


@converter("MaxUnpool", attributes="kernel_shape pads strides", inputs=3, constants=(2,))
def _max_unpool(node: OnnxNode) -> Expr:
    """Each element at its place of the flattened output, zeros elsewhere. Whether places are of the
    output that kernel, strides and pads imply or of a larger output_shape, ONNX and its runtimes
    do not agree: then it is refused."""
    extents, kind = node.extents(0), node.dtype(0)
    rank = len(extents) - 2
    kernel = node.attributes["kernel_shape"]
    strides = node.attributes.get("strides") or (1,) * rank
    pads = node.attributes.get("pads") or (0,) * 2 * rank
    sizes = [
        (extents[2 + axis] - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[rank + axis]
        for axis in range(rank)
    ]
    said = node.constant(2)
    full = [*extents[:2], *sizes]
    if said is not None and [int(size) for size in said] != full:
        raise node.refusal(
            f"its output_shape is {[int(size) for size in said]}, and its kernel, strides and pads "
            f"give {full}: whose places its indices are is not defined",
            "export it with pads that give that shape",
        )
    zeros = constant(np.zeros(math.prod(full), kind))
    flat = [node.emit(relax.op.reshape(node.tensor(i), [-1])) for i in (0, 1)]
    made = node.emit(relax.op.scatter_elements(zeros, flat[1], flat[0], axis=0))
    return relax.op.reshape(made, full)
