# SPDX-License-Identifier: Apache-2.0
"""One operator as several, each of which computes a part of its output.

In:   an operator; rows of its output, or blocks of its channels.
Out:  a LayerPart: an operator that computes these alone, on parts of the whole tensors,
      and where these stand; None where the operator cannot be divided so.
Next: views.py puts their operations on the whole tensors; cores.py divides layers among devices,
      bands.py a chain of layers into bands of rows.

    rows      of a convolution or pool: the rows of the input that its windows reach; on elements:
              the same rows
    channels  of a product: kernels; depthwise, pools and on elements: the same channels

A part computes every element of its output as the whole operator does: sums have the same terms,
and rounding is by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from loadstone import graph as g
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from loadstone.vta.region.folded_input import folded_name
from loadstone.vta.region.views import View

__all__ = ["LayerPart", "channels_of", "rows_of", "window_height"]


@dataclass(frozen=True)
class LayerPart:
    """operator: on parts of tensors. views: these, by their names. folded: the layout of its input,
    where the host folds taps into channels."""

    operator: g.Operator
    views: Mapping[str, View]
    folded: Im2colLayout | None = None


# --- rows -----------------------------------------------------------------------------------------
def rows_of(
    op: g.Operator, begin: int, end: int, config: HwConfig, folded: Im2colLayout | None = None
) -> LayerPart | None:
    """Rows [begin, end) of an output (N, H, W, C). folded: of the whole operator's input."""
    if len(op.output.shape) != 4:
        return None
    if isinstance(op, g.Conv2D | g.PlaneConv2D | g.AveragePool2D | g.MaxPool2D):
        return _window_rows(op, begin, end, config, folded)
    if not _is_elementwise(op):
        return None
    cut = _Cut(config)
    inputs = tuple(cut.rows(tensor, begin, end) for tensor in op.inputs)
    name = f"{op.name} rows {begin} to {end}"
    made = replace(op, name=name, inputs=inputs, outputs=(cut.rows(op.output, begin, end),))
    return LayerPart(made, cut.views)


def _window_rows(
    op: g.Conv2D | g.PlaneConv2D | g.Pool2D,
    begin: int,
    end: int,
    config: HwConfig,
    folded: Im2colLayout | None,
) -> LayerPart | None:
    top, left, _, right = op.padding
    first = begin * op.strides[0] - top
    past = (end - 1) * op.strides[0] - top + window_height(op)
    low, high = max(first, 0), min(past, op.input.shape[1])
    if low >= high:  # windows that lie wholly in the padding
        return None
    cut = _Cut(config)
    x, y = cut.rows(op.input, low, high), cut.rows(op.output, begin, end)
    own = (low - first, left, past - high, right)
    name = f"{op.name} rows {begin} to {end}"
    made: g.Operator = replace(op, name=name, inputs=(x,), outputs=(y,), padding=own)
    if folded is None:
        return LayerPart(made, cut.views)
    height, width = folded.size
    rows = (begin, end) if folded.kernel[0] > 1 else (low, high)
    is_folded = folded.kernel[0] > 1
    layout = replace(
        folded,
        shape=(folded.shape[0], high - low, *folded.shape[2:]),
        size=(rows[1] - rows[0], width),
        padding=(own[0] if is_folded else 0, folded.padding[1]),
    )
    blocks = range(layout.blocked.samples * layout.blocked.channel_blocks)
    view = View(
        folded_name(op),
        layout.size[0] * width,
        height * width,
        rows[0] * width,
        blocks,
    )
    return LayerPart(made, {**cut.views, x.name: view}, layout)


def window_height(op: g.Conv2D | g.PlaneConv2D | g.Pool2D) -> int:
    """Rows of the input from the first to the last that one row of the output reads."""
    if isinstance(op, g.Pool2D):
        return op.kernel[0]
    return op.dilation[0] * (int(op.weights.shape[1]) - 1) + 1


# --- channels -------------------------------------------------------------------------------------
def channels_of(
    op: g.Operator, begin: int, end: int, config: HwConfig, folded: Im2colLayout | None = None
) -> LayerPart | None:
    """Blocks [begin, end) of the channels of an output; of one with planes, of each plane."""
    cut = _Cut(config)
    name = f"{op.name} blocks {begin} to {end}"
    if isinstance(op, g.Conv2D | g.Dense):
        made = _kernels(op, name, begin, end, cut)
    elif isinstance(op, g.PlaneConv2D | g.PlaneDense):
        made = _planes(op, name, begin, end, cut)
    elif _keeps_channels(op):
        inputs = tuple(cut.blocks(tensor, begin, end) for tensor in op.inputs)
        made = replace(op, name=name, inputs=inputs, outputs=(cut.blocks(op.output, begin, end),))
    else:
        made = None
    return None if made is None else LayerPart(made, cut.views, folded)


def _kernels(
    op: g.Conv2D | g.Dense, name: str, begin: int, end: int, cut: _Cut
) -> g.Operator | None:
    """Some of the kernels; depthwise, where each has a channel of its own, on these channels."""
    here = cut.channels(op.weights.shape[0], begin, end)
    y = cut.blocks(op.output, begin, end)
    weights, scales = op.weights[here].copy(), op.weight_scales[here].copy()
    zero_points, bias = op.weight_zero_points[here].copy(), op.bias[here].copy()
    if isinstance(op, g.Dense) or op.groups == 1:
        return replace(
            op,
            name=name,
            outputs=(y,),
            weights=weights,
            weight_scales=scales,
            weight_zero_points=zero_points,
            bias=bias,
        )
    if not op.groups == op.weights.shape[0] == op.input.shape[3]:
        return None
    return replace(
        op,
        name=name,
        inputs=(cut.blocks(op.input, begin, end),),
        outputs=(y,),
        weights=weights,
        weight_scales=scales,
        weight_zero_points=zero_points,
        bias=bias,
        groups=len(bias),
    )


def _planes(
    op: g.PlaneConv2D | g.PlaneDense, name: str, begin: int, end: int, cut: _Cut
) -> g.Operator | None:
    """Of each plane the same blocks, where planes begin with blocks."""
    kernels = op.weights.shape[0]
    if kernels % cut.config.block or (isinstance(op, g.PlaneConv2D) and op.groups != 1):
        return None
    here = cut.channels(kernels, begin, end)
    y = cut.blocks(op.output, begin, end, op.planes)
    return replace(op, name=name, outputs=(y,), weights=op.weights[here].copy())


def _keeps_channels(op: g.Operator) -> bool:
    """Whether each channel of the output is computed from the same ones of the inputs."""
    if isinstance(op, g.Mean):
        of_pixels = not {0, len(op.input.shape) - 1} & set(op.axes)
        return of_pixels and op.output.shape[-1] == op.input.shape[-1]
    return isinstance(op, g.AveragePool2D | g.MaxPool2D) or _is_elementwise(op)


def _is_elementwise(op: g.Operator) -> bool:
    """Whether each element of the output is made of those at its place in the inputs."""
    kinds = isinstance(op, g.Add | g.Sub | g.Mul | g.Requantize)
    return kinds and all(tensor.shape == op.output.shape for tensor in op.inputs)


class _Cut:
    """Makes parts of tensors, and notes where they stand."""

    def __init__(self, config: HwConfig) -> None:
        self.config = config
        self.views: dict[str, View] = {}

    def rows(self, tensor: g.Tensor, begin: int, end: int) -> g.Tensor:
        """Of (N, H, W, C) the rows [begin, end)."""
        n, _, width, channels = tensor.shape
        whole = self._blocked(tensor)
        blocks = range(whole.samples * whole.channel_blocks)
        part = replace(
            tensor,
            name=f"{tensor.name} rows {begin} to {end}",
            shape=(n, end - begin, width, channels),
        )
        plane = (end - begin) * width
        self.views[part.name] = View(tensor.name, plane, whole.pixels, begin * width, blocks)
        return part

    def blocks(self, tensor: g.Tensor, begin: int, end: int, planes: int = 1) -> g.Tensor:
        """Of each plane the blocks [begin, end) of channels."""
        whole = self._blocked(tensor)
        each = whole.channel_blocks // planes
        numbers = [
            sample * whole.channel_blocks + plane * each + block
            for sample in range(whole.samples)
            for plane in range(planes)
            for block in range(begin, end)
        ]
        here = self.channels(tensor.shape[-1] // planes, begin, end)
        part = replace(
            tensor,
            name=f"{tensor.name} blocks {begin} to {end}",
            shape=(*tensor.shape[:-1], planes * (here.stop - here.start)),
        )
        self.views[part.name] = View(tensor.name, whole.pixels, whole.pixels, 0, numbers)
        return part

    def channels(self, count: int, begin: int, end: int) -> slice:
        """Those of blocks [begin, end), of so many channels."""
        block = self.config.block
        return slice(begin * block, min(end * block, count))

    def _blocked(self, tensor: g.Tensor) -> Blocked:
        return Blocked(tensor.shape, self.config.batch, self.config.block)
