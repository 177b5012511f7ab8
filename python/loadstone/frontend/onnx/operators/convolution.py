# SPDX-License-Identifier: Apache-2.0
"""ONNX's convolutions.

In:   a OnnxNode, channels first.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.operators.windows import Windows, windows_of
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter("Conv", attributes="auto_pad dilations group kernel_shape pads strides", inputs=3)
def _conv(node: OnnxNode) -> Expr:
    """Of one, two or three dimensions."""
    kernel = _kernel(node)
    found, x = windows_of(node, kernel), node.tensor(0)
    x, pads = _cropped(node, x, found)
    convolve, layout, kernel_layout = _CONVOLUTIONS[len(kernel)]
    made = convolve(
        x,
        node.tensor(1),
        strides=list(found.strides),
        padding=pads,
        dilation=list(found.dilations),
        groups=node.attributes["group"],
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    return _with_bias(node, made)


def _kernel(node: OnnxNode) -> tuple[int, ...]:
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


def _cropped(node: OnnxNode, x: Expr, found: Windows) -> tuple[Expr, list[int]]:
    """Padding below 0 crops; and the padding that is left."""
    if min(found.pads) < 0:
        axes = [2 + axis for axis in range(len(found.sizes))]
        begins = [max(0, -pad) for pad in found.before]
        ends = [size - max(0, -pad) for size, pad in zip(found.sizes, found.after, strict=True)]
        x = node.emit(relax.op.strided_slice(x, axes, begins, ends))
    return x, [max(0, pad) for pad in found.pads]


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
