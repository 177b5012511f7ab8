# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/rescaled_tile.py: which tile the cost model takes, and what it says of another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, RescaledSpec, Window
from loadstone.vta.schedule.rescaled_tile import cheapest, choose

CONFIG = load_config("vta-pynq")
#: MobileNetV2's second projection: 144 channels to 24, without padding.
WINDOW = Window(9, 1, (56, 56), (56, 56), (1, 1), (1, 1), (1, 1), (0, 0), 0)
LEVELS = (
    LevelShape(0, ((0, 4),), 1),
    LevelShape(8, ((0, 4),), 1),
    LevelShape(8, ((1, 3),), 0),
)
SPEC = RescaledSpec(
    window=WINDOW,
    blocks=1,
    own_input=False,
    tile=(1, 1, 1),
    bias=1,
    left=0,
    right=False,
    digits=3,
    clamped=False,
    signed=True,
    chain=ChainShape(LEVELS, 3, -128, 127),
    multipliers=1,
)


def test_a_sum_in_chunks_waits_for_its_loads() -> None:
    """Chunks take longer to load than to multiply; whole sums of one row took 23 % less time in the
    simulator than chunks of three rows."""
    chosen = choose(SPEC, 2, CONFIG)
    assert chosen.tile == (1, 56, 9)
    chunks = choose(SPEC, 2, CONFIG, (3, 56, 2))
    assert chunks.tile == (3, 56, 2)
    assert chunks.cycles > 1.15 * chosen.cycles


def test_a_long_sum_may_be_cut() -> None:
    """Multiplying takes longer than loading where a kernel has nine taps."""
    window = replace(WINDOW, in_blocks=16, kernel=(3, 3), padding=(1, 1), input=(14, 14))
    spec = replace(SPEC, window=replace(window, output=(14, 14)), blocks=1, multipliers=1)
    assert choose(spec, 16, CONFIG).tile[2] < 16


def test_weights_of_the_only_kernel_stay() -> None:
    """Four blocks of 36 weight tiles come once, though each turn takes them in four chunks: as many
    turns of short sums would else wait for them."""
    padded = {"input": (56, 56), "kernel": (3, 3), "padding": (1, 1)}
    spec = replace(SPEC, window=replace(WINDOW, in_blocks=4, **padded), blocks=4, multipliers=4)
    tile = (1, 4, 1)
    alone, beside = (choose(spec, count, CONFIG, tile) for count in (4, 8))
    assert alone.tile == beside.tile == tile
    assert alone.cycles < beside.cycles


def test_tiles_come_cheapest_first_and_fit() -> None:
    found = cheapest(SPEC, 2, CONFIG, 4)
    assert [choice.cycles for choice in found] == sorted(choice.cycles for choice in found)
    for rows, columns, chunk in (choice.tile for choice in found):
        assert 2 * chunk * rows * columns <= CONFIG.depth(Memory.INP)


def test_what_fits_no_scratchpad_is_refused() -> None:
    window = replace(WINDOW, kernel=(56, 56), output=(1, 1), in_blocks=9)
    with pytest.raises(LoweringError, match="one pixel of 56x56 taps"):
        choose(replace(SPEC, window=window), 2, CONFIG)


@pytest.mark.parametrize("tile", [(1, 2), (0, 56, 9)])
def test_a_tile_that_is_none_is_refused(tile: tuple[int, ...]) -> None:
    with pytest.raises(LoweringError, match="rows, columns and input blocks"):
        choose(SPEC, 2, CONFIG, tile)


def test_a_width_without_divisors_is_not_cut_into_single_columns() -> None:
    """DeepLab's 257 columns: their digits fit the scratchpad in two parts of a row, of which the
    second hangs over. 256 columns are cut into equal parts, which are as good."""
    window = replace(WINDOW, in_blocks=2, input=(257, 257), output=(257, 257))
    found = choose(replace(SPEC, window=window), 1, CONFIG)
    assert found.tile == (1, 129, 2)
    even = replace(window, input=(257, 256), output=(257, 256))
    assert choose(replace(SPEC, window=even), 1, CONFIG).tile == (1, 128, 2)
    single = choose(replace(SPEC, window=window), 1, CONFIG, (1, 1, 2))
    assert single.cycles > 3 * found.cycles
    assert cheapest(replace(SPEC, window=window), 1, CONFIG, 1) == [found]
