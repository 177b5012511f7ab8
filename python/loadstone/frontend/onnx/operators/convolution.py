# SPDX-License-Identifier: Apache-2.0
"""ONNX's convolutions.

In:   a OnnxNode, channels first.
Out:  its result as a Relax expression.
Next: importer.py binds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["same_pads"]


@converter("Conv", attributes="auto_pad dilations group kernel_shape pads strides", inputs=3)
def _conv(node: OnnxNode) -> Expr:
    """Of one, two or three dimensions."""
    kernel, spatial = node.extents(1)[2:], node.extents(0)[2:]
    rank = len(kernel)
    said = node.attributes.get("kernel_shape", kernel)
    if tuple(said) != tuple(kernel):
        raise node.refusal(
            f"its kernel_shape is {list(said)} and its weights have {list(kernel)}",
            "export the model anew",
        )
    if rank not in _CONVOLUTIONS:
        raise node.refusal(f"it has {rank} spatial dimensions, 1 to 3 are imported", "reshape it")
    strides = list(node.attributes.get("strides", [1] * rank))
    dilations = list(node.attributes.get("dilations", [1] * rank))
    mode, pads = node.attributes["auto_pad"], list(node.attributes.get("pads", [0] * 2 * rank))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = same_pads(spatial, kernel, strides, dilations, upper=mode == "SAME_UPPER")
    elif mode == "VALID":
        pads = [0] * 2 * rank
    x = node.tensor(0)
    if any(pad < 0 for pad in pads):
        raise node.refusal(f"its pads are {pads}: none below 0 is imported", "slice its input")
    convolve, layout, kernel_layout = _CONVOLUTIONS[rank]
    made = convolve(
        x,
        node.tensor(1),
        strides=strides,
        padding=pads,
        dilation=dilations,
        groups=node.attributes["group"],
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    bias = node.input(2)
    if bias is None:
        return made
    row = node.emit(relax.op.reshape(bias, [1, -1] + [1] * rank), f"{node.proto.output[0]}/bias")
    return relax.op.add(node.emit(made, f"{node.proto.output[0]}/sums"), row)


_CONVOLUTIONS = {
    1: (relax.op.nn.conv1d, "NCW", "OIW"),
    2: (relax.op.nn.conv2d, "NCHW", "OIHW"),
    3: (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
}


def same_pads(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    upper: bool,
) -> list[int]:
    """SAME_UPPER and SAME_LOWER as numbers, all befores and then all afters: as many as give
    ceil(size / stride), the odd one after (upper) or before."""
    befores, afters = [], []
    for size, taps, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        befores.append(small if upper else large)
        afters.append(large if upper else small)
    return befores + afters
