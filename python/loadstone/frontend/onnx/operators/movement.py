# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that move elements and compute nothing.

In:   an OnnxNode.
Out:  its result, or results, as Relax expressions.
Next: importer.py binds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.relax.compat import constant, exact_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter("Pad", attributes="mode pads value", inputs=4, constants=(1, 2, 3))
def _pad(node: OnnxNode) -> Expr:
    """A negative number crops. The numbers are attributes up to opset 10, inputs later."""
    pairs, mode = _pad_pairs(node), node.attributes["mode"]
    if mode != "constant":
        return _gathered(node, pairs, mode)
    x, extents, fill = node.tensor(0), node.extents(0), node.constant(2)
    number = node.attributes.get("value", 0.0) if fill is None else fill.reshape(-1)[0]
    if any(size < 0 for pair in pairs for size in pair):
        begins = [max(0, -before) for before, _ in pairs]
        ends = [size - max(0, -after) for size, (_, after) in zip(extents, pairs, strict=True)]
        x = node.emit(relax.op.strided_slice(x, list(range(len(extents))), begins, ends))
    widths = [max(0, size) for pair in pairs for size in pair]
    return relax.op.nn.pad(x, widths, pad_value=float(number)) if any(widths) else x


def _pad_pairs(node: OnnxNode) -> list[tuple[int, int]]:
    """Before and after each axis. ONNX: all befores, then all afters; opset 18 can name axes."""
    rank, given, named = len(node.extents(0)), node.constant(1), node.constant(3)
    pads = [int(n) for n in (node.attributes["pads"] if given is None else given.reshape(-1))]
    axes = range(rank) if named is None else [int(axis) % rank for axis in named]
    half, pairs = len(pads) // 2, [(0, 0)] * rank
    for axis, before, after in zip(axes, pads[:half], pads[half:], strict=True):
        pairs[axis] = (before, after)
    return pairs


def _gathered(node: OnnxNode, pairs: Sequence[tuple[int, int]], mode: str) -> Expr:
    """Padding with elements of the tensor itself: each axis by the places that it reads."""
    x = node.tensor(0)
    for axis, (size, (before, after)) in enumerate(zip(node.extents(0), pairs, strict=True)):
        places = np.arange(-before, size + after)
        if mode == "edge":
            places = np.clip(places, 0, size - 1)
        elif mode == "wrap":
            places %= size
        elif mode == "reflect":
            period = max(1, 2 * (size - 1))
            places = (size - 1) - np.abs((size - 1) - places % period)
        else:
            raise node.refusal(f"its mode is {mode}, which ONNX does not define", "export it anew")
        if (before, after) != (0, 0):
            x = node.emit(relax.op.take(x, constant(places.astype(np.int64)), axis))
    return x


@converter("DepthToSpace", "SpaceToDepth", attributes="blocksize mode")
def _blocks(node: OnnxNode) -> Expr:
    """DCR: depth is block, column, row from the slowest; CRD: channel before block. The first
    opsets know DCR alone."""
    n, c, h, w = node.extents(0)
    size, mode = int(node.attributes["blocksize"]), node.attributes.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise node.refusal(f"its mode is {mode}, and only DCR and CRD mean something", "export it")
    if node.op_type == "DepthToSpace":
        inner = c // size**2
        parts = (n, size, size, inner, h, w) if mode == "DCR" else (n, inner, size, size, h, w)
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        result = (n, inner, h * size, w * size)
    else:
        parts = (n, c, h // size, size, w // size, size)
        order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
        result = (n, c * size**2, h // size, w // size)
    split = node.emit(relax.op.reshape(node.tensor(0), parts))
    return relax.op.reshape(node.emit(relax.op.permute_dims(split, order)), result)


@converter("ReverseSequence", attributes="batch_axis time_axis", inputs=2, constants=(1,))
def _reverse_sequence(node: OnnxNode) -> Expr:
    """The first elements of each row, as many as its length, from the last to the first."""
    extents, lengths = node.extents(0), node.constant(1)
    assert lengths is not None
    time, batch = (int(node.attributes[f"{kind}_axis"]) for kind in ("time", "batch"))
    steps = np.arange(extents[time])[:, None]
    rows = lengths.reshape(1, -1)
    places = np.where(steps < rows, rows - 1 - steps, steps)  # (time, batch)
    if batch < time:
        places = places.T
    along = [n if a in (time, batch) else 1 for a, n in enumerate(extents)]
    whole = np.broadcast_to(places.reshape(along), extents).astype(np.int64)
    return relax.op.gather_elements(node.tensor(0), exact_constant(whole), time)


@converter("Slice", attributes="axes ends starts", opsets=(1, 9))
def _first_slice(node: OnnxNode) -> Expr:
    """Before opset 10 bounds were attributes, and there were no steps."""
    extents = node.extents(0)
    begins, ends = ([int(n) for n in node.attributes[name]] for name in ("starts", "ends"))
    axes = [int(a) % len(extents) for a in node.attributes.get("axes", range(len(begins)))]
    bounds = [
        slice(*pair).indices(extents[a])[:2] for *pair, a in zip(begins, ends, axes, strict=True)
    ]
    lows, highs = ([pair[k] for pair in bounds] for k in (0, 1))
    return relax.op.strided_slice(node.tensor(0), axes, lows, highs)


@converter("Split", attributes="axis split num_outputs", inputs=2, outputs=ALL, constants=(1,))
def _split(node: OnnxNode) -> list[Expr]:
    """As slices, which are done on integers and have an ONNX form each."""
    extents, count = node.extents(0), len(node.proto.output)
    axis = int(node.attributes["axis"]) % len(extents)
    said = node.constant(1)
    sizes = node.attributes.get("split") if said is None else said.reshape(-1)
    if sizes is None:
        each = -(-extents[axis] // count)
        sizes = [each] * (count - 1) + [extents[axis] - each * (count - 1)]
    if sum(sizes) != extents[axis] or len(sizes) != count:
        raise node.refusal(
            f"its parts are {list(map(int, sizes))} of {extents[axis]} in axis {axis}",
            "export the model anew",
        )
    end, parts = 0, list["Expr"]()
    for index, size in enumerate(sizes):
        begin, end = end, end + int(size)
        part = relax.op.strided_slice(node.tensor(0), [axis], [begin], [end])
        parts.append(node.emit(part, f"{node.proto.output[0]}_{index}"))
    return parts
