# SPDX-License-Identifier: Apache-2.0
"""ONNX's convolutions.

In:   an OnnxNode, channels first.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.operators.windows import windows_of
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["convolved", "kernel_of"]


@converter("Conv", attributes="auto_pad dilations group kernel_shape pads strides", inputs=3)
def _conv(node: OnnxNode) -> Expr:
    """Of one, two or three dimensions."""
    return _with_bias(node, convolved(node, node.tensor(0), node.tensor(1)))


def convolved(node: OnnxNode, data: Expr, weights: Expr, out_dtype: str | None = None) -> Expr:
    """The convolution of a node, of what stands for its first two inputs."""
    kernel = kernel_of(node)
    found = windows_of(node, kernel)
    convolve, layout, kernel_layout = _CONVOLUTIONS[len(kernel)]
    return convolve(
        data,
        weights,
        strides=list(found.strides),
        padding=found.pads,
        dilation=list(found.dilations),
        groups=node.attributes["group"],
        data_layout=layout,
        kernel_layout=kernel_layout,
        out_dtype=out_dtype,
    )


def kernel_of(node: OnnxNode) -> tuple[int, ...]:
    """By spatial axis, as the weights have it."""
    kernel = node.extents(1)[2:]
    rank, said = len(kernel), node.attributes.get("kernel_shape", kernel)
    if tuple(said) != tuple(kernel):
        raise node.refusal(
            f"its kernel_shape is {list(said)} and its weights have {list(kernel)}",
            "export the model anew",
        )
    if rank not in _CONVOLUTIONS:
        raise node.refusal(f"it has {rank} spatial dimensions, 1 to 3 are imported", "reshape it")
    return kernel


def _with_bias(node: OnnxNode, made: Expr) -> Expr:
    bias = node.input(2)
    if bias is None:
        return made
    rank = len(node.extents(1)) - 2
    row = node.emit(relax.op.reshape(bias, [1, -1] + [1] * rank), f"{node.proto.output[0]}/bias")
    return relax.op.add(node.emit(made, f"{node.proto.output[0]}/sums"), row)


_CONVOLUTIONS = {
    1: (relax.op.nn.conv1d, "NCW", "OIW"),
    2: (relax.op.nn.conv2d, "NCHW", "OIHW"),
    3: (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
}


@converter(
    "ConvTranspose",
    attributes="auto_pad dilations group kernel_shape output_padding output_shape pads strides",
    inputs=3,
)
def _conv_transpose(node: OnnxNode) -> Expr:
    """Of one, two or three dimensions."""
    kernel = kernel_of(node)
    rank, sizes = len(kernel), node.extents(0)[2:]
    strides = tuple(node.attributes.get("strides") or (1,) * rank)
    dilations = tuple(node.attributes.get("dilations") or (1,) * rank)
    more = tuple(node.attributes.get("output_padding") or (0,) * rank)
    full = [
        (size - 1) * stride + (taps - 1) * dilation + 1
        for size, stride, taps, dilation in zip(sizes, strides, kernel, dilations, strict=True)
    ]
    pads = _cut(node, full, more)
    # What is cut at the end and what is added there are one number; a convolution adds less than
    # a stride, so that what is left is zeros behind it.
    befores, ends = pads[:rank], [add - pad for add, pad in zip(more, pads[rank:], strict=True)]
    convolve, layout, kernel_layout = _TRANSPOSED[rank]
    made = convolve(
        node.tensor(0),
        node.tensor(1),
        strides=list(strides),
        padding=[max(0, pad) for pad in befores] + [max(0, -end) for end in ends],
        output_padding=[0] * rank,
        dilation=list(dilations),
        groups=node.attributes["group"],
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    zeros = [(max(0, -pad), max(0, end)) for pad, end in zip(befores, ends, strict=True)]
    if any(size for pair in zeros for size in pair):
        widths = [0, 0, 0, 0, *(size for pair in zeros for size in pair)]
        made = relax.op.nn.pad(node.emit(made, f"{node.proto.output[0]}/whole"), widths)
    return _with_bias(node, made)


_TRANSPOSED = {
    1: (relax.op.nn.conv1d_transpose, "NCW", "IOW"),
    2: (relax.op.nn.conv2d_transpose, "NCHW", "IOHW"),
    3: (relax.op.nn.conv3d_transpose, "NCDHW", "IODHW"),
}


def _cut(node: OnnxNode, full: Sequence[int], more: Sequence[int]) -> list[int]:
    """What is cut from the whole result, all befores and then all afters. full: its sizes. more:
    output_padding."""
    mode, wanted = node.attributes["auto_pad"], node.attributes.get("output_shape")
    if wanted is None and mode not in ("SAME_UPPER", "SAME_LOWER"):
        none = [0] * 2 * len(full)
        return none if mode == "VALID" else list(node.attributes.get("pads") or none)
    if wanted is None:
        wanted = _same_shape(node, full, more)
    totals = [
        size + add - want for size, add, want in zip(full, more, wanted[-len(full) :], strict=True)
    ]
    halves = [max(0, total) // 2 for total in totals]
    others = [total - half for total, half in zip(totals, halves, strict=True)]
    if mode == "SAME_UPPER" or min(totals) < 0:
        befores = halves if mode == "SAME_UPPER" else [max(0, other) for other in others]
        return befores + [total - before for total, before in zip(totals, befores, strict=True)]
    return others + halves


def _same_shape(node: OnnxNode, full: Sequence[int], more: Sequence[int]) -> list[int]:
    """What SAME_UPPER and SAME_LOWER leave of it: size times stride."""
    if any(more):
        raise node.refusal(
            f"its auto_pad is {node.attributes['auto_pad']} and its output_padding {list(more)}, "
            "where ONNX and its runtimes do not agree on the shape",
            "export it with pads",
        )
    strides = node.attributes.get("strides") or (1,) * len(full)
    sizes = zip(node.extents(0)[2:], strides, full, strict=True)
    return [min(size * stride, whole) for size, stride, whole in sizes]
