# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/rescaled.py: nothing is loaded that nobody reads."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.rescaled import schedule
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, RescaledSpec, Window
from loadstone.vta.stream.operations import DramTile, TileLoad

CONFIG = load_config("vta-pynq")


def loads(window: Window, tile: tuple[int, int, int], level: LevelShape) -> list[TileLoad]:
    """Those of a kernel of one block and two digits."""
    chain = ChainShape((level,), 8, -128, 127)
    spec = RescaledSpec(window, 1, False, tile, 1, 0, False, 2, False, False, chain, 1)
    function = insert_dma_copy(schedule(spec, CONFIG), memory_table(CONFIG))
    kernel = kernel_of_nests(function, CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    return [o for o in emitter.operations if isinstance(o, TileLoad)]


@pytest.mark.parametrize(("run", "places"), [((0, 2), range(32)), ((1, 1), range(16, 32))])
def test_digits_that_a_chain_does_not_read_stay_in_dram(
    run: tuple[int, int], places: range
) -> None:
    one = (1, 1)
    window = Window(1, 1, (4, 4), (4, 4), one, one, one, (0, 0), 0)
    found = loads(window, (4, 4, 1), LevelShape(0, (run,), 1))
    (fetch,) = (o for o in found if o.dram.tensor == "digits")
    assert (fetch.dram.tile, fetch.y_size * fetch.x_size) == (places.start, len(places))


def test_a_row_of_a_dilated_kernel_loads_no_row_between_its_taps() -> None:
    window = Window(1, 1, (9, 5), (5, 5), (3, 1), (1, 1), (2, 1), (0, 0), 0)
    level = LevelShape(0, ((0, 2),), 1)
    found = [o for o in loads(window, (1, 5, 1), level) if o.dram.tensor == "x"]
    assert [(o.y_size, o.x_size, o.x_stride) for o in found] == [(3, 5, 10)] * 5
    whole = [o for o in loads(window, (5, 5, 1), level) if o.dram.tensor == "x"]
    assert sum(o.y_size * o.x_size for o in whole) == 45
