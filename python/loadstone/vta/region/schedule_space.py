# SPDX-License-Identifier: Apache-2.0
"""The choices to try for one layer, most promising first.

In:   an operator in the form in which it is lowered (columns folded), its device, whether the host
      packs its input.
Out:  LayerChoices; the first is empty: the compiler's own choice.
Next: search/tune_layer.py tries them on the simulator.

The order is that of the cost model, which ranks most of them correctly, so that a search in this
order soon finds the best ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability
from loadstone.vta.operators import shifted
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.rescaled_layer import cheapest_layer
from loadstone.vta.operators.weighted import (
    can_fold,
    conv_spec,
    dense_spec,
    fold_spec,
    folded_input,
    is_rescaled,
)
from loadstone.vta.schedule import conv, rescaled_tile, tile
from loadstone.vta.schedule.choices import FORMS, LayerChoice
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.rescaled_spec import RescaledSpec

__all__ = ["layer_choices"]

#: Of one kernel where the GEMM core requantizes.
_TILES_OF_A_KERNEL = 12
_JOINED = (1, 2, 4, 8)
#: Parts into which an operator on elements is cut.
_PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)

#: (estimated cycles, choice)
_Ranked = tuple[int, LayerChoice]


def layer_choices(
    op: g.Operator, config: HwConfig, from_host: bool, most: int
) -> list[LayerChoice]:
    """At most so many; one where there is nothing to choose."""
    ranked: list[_Ranked] = []
    if config.is_float:
        return [LayerChoice()]
    if isinstance(op, g.Conv2D | g.Dense):
        ranked = list(_weighted(op, config, from_host, most))
    elif isinstance(op, g.Elementwise | g.Requantize) and op.output.size > config.block:
        ranked = list(_elementwise(op, config))
    ranked.sort(key=lambda entry: entry[0])
    found = dict.fromkeys([LayerChoice(), *(choice for _, choice in ranked)])
    return list(found)[:most]


def _weighted(
    op: g.Conv2D | g.Dense, config: HwConfig, from_host: bool, most: int
) -> Iterator[_Ranked]:
    if not config.has(Capability.REQUANTIZE):
        op = shifted.without_silent(op, config.block)
    for fold, spec in _specs(op, config, from_host):
        if is_rescaled(op, config):
            yield from _rescaled(op, spec, fold, config)
            continue
        for found in tile.cheapest(conv.nest(spec), config, most):
            sizes = (
                *(found.samples, found.groups, found.out),
                *(found.in_, found.height, found.width),
            )
            order = "pixels" if found.spatial_outer else "channels"
            yield found.cycles, LayerChoice(sizes, order, fold)


def _specs(
    op: g.Conv2D | g.Dense, config: HwConfig, from_host: bool
) -> Iterator[tuple[tuple[int, int] | None, ConvSpec]]:
    """The layer in tiles, by how taps are folded; None: they cannot be."""
    if isinstance(op, g.Dense):
        yield None, dense_spec(op, config)
        return
    plain = conv_spec(op, config)
    if not from_host or not can_fold(op, config):
        yield None, plain
        return
    yield (0, 0), plain
    for fold in ((0, 1), (1, 0), (1, 1)):
        whole = (bool(fold[0]), bool(fold[1]))
        layout = folded_input(op, whole, op.input.zero_point, config)
        yield fold, fold_spec(plain, op, layout)


def _rescaled(
    op: g.Conv2D | g.Dense, spec: ConvSpec, fold: tuple[int, int] | None, config: HwConfig
) -> Iterator[_Ranked]:
    """By form, by how many blocks go together, by tile; of those that come to the same kernels the
    first."""
    known: set[tuple[RescaledSpec, ...]] = set()
    for form, joined in product((None, *FORMS), (None, *_JOINED)):
        choice = LayerChoice(fold=fold, form=form, joined=joined)
        ranked = _kernels(op, spec, choice, config)
        if ranked is None:
            continue
        tiles = rescaled_tile.cheapest(ranked[1][0], ranked[2], config, _TILES_OF_A_KERNEL)
        tiled = [replace(choice, tile=cheap.tile) for cheap in tiles]
        for each in (choice, *tiled):
            found = _kernels(op, spec, each, config)
            if found is not None and found[1] not in known:
                known.add(found[1])
                yield found[0], each


def _kernels(
    op: g.Conv2D | g.Dense, spec: ConvSpec, choice: LayerChoice, config: HwConfig
) -> tuple[int, tuple[RescaledSpec, ...], int] | None:
    """Estimated cycles, the kernels, and how many blocks the layer has; None where the device
    cannot do it so."""
    try:
        layer = cheapest_layer(op, spec, config, LayerRequest(choice))
        kernels = tuple(layer.kernel(blocks) for blocks in layer.runs_of_blocks())
        return layer.cycles(), kernels, layer.count
    except LoweringError:
        return None


def _elementwise(op: g.Operator, config: HwConfig) -> Iterator[_Ranked]:
    """Tiles that cut the whole into so many parts. The rank is their number: that of the
    compiler's own is about 6."""
    for loops in _loops(op, config):
        for parts in _PARTS:
            total = 1
            for extent in loops:
                total *= extent
            left = max(1, -(-total // parts))
            sizes: list[int] = []
            for extent in reversed(loops):
                cuts = -(-extent // left)
                sizes.insert(0, -(-extent // cuts))
                left = max(1, left // sizes[0])
            yield abs(parts - 6), LayerChoice(tile=tuple(sizes))


def _loops(op: g.Operator, config: HwConfig) -> Sequence[tuple[int, ...]]:
    """Those of the kernel: one where all tensors have one shape."""
    layout = Blocked(op.output.shape, config.batch, config.block)
    if len({tensor.shape for tensor in (*op.inputs, op.output)}) == 1:
        return [(layout.size_tiles,)]
    return [(layout.samples, layout.channel_blocks, layout.pixels)]
