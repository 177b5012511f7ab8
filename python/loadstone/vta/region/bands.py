# SPDX-License-Identifier: Apache-2.0
"""A chain of layers in bands of rows that fit each other.

In:   a LayerChain, and how its layers were lowered, one after the other.
Out:  their operations in bands, with the same constants.
Next: turns.py looks whether they pay; passes/weave.py lets them take turns.

    rows of expand     |0 . . 4|5 . . 8|9 . . 12|        a band more than depthwise reads first
    rows of depthwise    |0 1|   |2 3|   |4 5|           3x3 with a stride of 2
    rows of project      |0 1|   |2 3|   |4 5|

One block of channels of a band is made, goes through the depthwise layer, and is added to the sums
of the third one, all in INP. The first band of the layer in front has as many rows more as the
windows reach further, so that each window finds its last rows just made. Those that two bands share
are read back from DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import LoweredOperator, lower_operator
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.region.chains import LayerChain
from loadstone.vta.region.constant_pool import ConstantPool
from loadstone.vta.region.parts import rows_of, window_height
from loadstone.vta.region.views import on_whole
from loadstone.vta.schedule.choices import LayerChoice
from loadstone.vta.stream.operations import Operation

__all__ = ["banded", "heights"]

#: Heights of bands that are tried.
_TRIED = 2


def heights(chain: LayerChain, config: HwConfig) -> Sequence[int]:
    """Rows of the depthwise layer's output in a band: the largest that INP holds with what it
    needs, and one less of them."""
    rows = chain.depthwise.output.shape[1]
    fitting = [n for n in range(1, rows + 1) if rows % n == 0 and _inp(chain, n, config) <= 1]
    return fitting[: -_TRIED - 1 : -1]


def _inp(chain: LayerChain, rows: int, config: HwConfig) -> float:
    """The part of INP that a band takes: two blocks of windows' rows and of the project layer's
    inputs, and all blocks of the expand layer's."""
    _, height, width, _ = chain.depthwise.input.shape
    _, left, _, right = chain.depthwise.padding
    reach = (rows - 1) * chain.depthwise.strides[0] + window_height(chain.depthwise)
    made = min(height, rows * chain.depthwise.strides[0])
    windows = reach * (left + width + right)
    sums = rows * chain.depthwise.output.shape[2]
    tiles = 2 * windows + 2 * sums + made * width * _inputs(chain, config)
    return tiles / config.depth(Memory.INP)


def _inputs(chain: LayerChain, config: HwConfig) -> int:
    """Blocks of channels that the expand layer reads."""
    if chain.folded is not None:
        return chain.folded.blocked.channel_blocks
    return Blocked(chain.expand.input.shape, config.batch, config.block).channel_blocks


def banded(
    chain: LayerChain,
    rows: int,
    config: HwConfig,
    request: LayerRequest,
    whole: Mapping[str, LoweredOperator],
) -> list[LayerOperation]:
    """Operations of the three layers, one layer after the other. whole: how each was lowered, whose
    constants these have. Raises LoweringError where a band has no room, or no form."""
    expand, depthwise, project = chain.operators
    height = expand.output.shape[1]
    wide = depthwise.output.shape[2]
    out = Blocked(project.output.shape, config.batch, config.block).channel_blocks
    top, _, _, _ = depthwise.padding
    first = (rows - 1) * depthwise.strides[0] - top + window_height(depthwise)
    made: list[LayerOperation] = []
    for begin, end in ((0, min(first, height)), (min(first, height), height)):
        if begin == end:
            continue
        part = rows_of(expand, begin, end, config, chain.folded)
        if part is None:
            raise LoweringError(f"{expand.name} has no part of some rows")
        most = end - begin if begin == 0 else min(end - begin, rows * depthwise.strides[0])
        tile = (1, 1, 1, _inputs(chain, config), most, expand.output.shape[2])
        lowered = _lowered(part.operator, tile, config, request, part.folded)
        operations = on_whole(lowered.operations, part.views)
        made += _kept(expand, lowered, operations, whole)
    for op, tile in ((depthwise, (1, 1, 1, 1, rows, wide)), (project, (1, 1, out, 1, rows, wide))):
        lowered = _lowered(op, tile, config, request, None)
        made += _kept(op, lowered, lowered.operations, whole)
    return made


def _kept(
    op: g.Operator,
    lowered: LoweredOperator,
    operations: Sequence[Operation],
    whole: Mapping[str, LoweredOperator],
) -> list[LayerOperation]:
    """With the constants of the whole layer."""
    pool = ConstantPool()
    kept = pool.kept(lowered.constants, operations, whole[op.name].constants)
    if pool.constants:
        raise LoweringError(f"{op.name} in bands needs constants of its own")
    return [(op.name, operation) for operation in kept]


def _lowered(
    op: g.Operator,
    tile: tuple[int, ...],
    config: HwConfig,
    request: LayerRequest,
    folded: Im2colLayout | None,
) -> LoweredOperator:
    asked = replace(request, choice=LayerChoice(tile=tile, order="pixels"))
    lowered = lower_operator(op, config, folded, asked)
    if lowered.scratch:
        raise LoweringError(f"{op.name} needs memory of its own")
    return lowered
