# SPDX-License-Identifier: Apache-2.0
"""DRAM of a simulated accelerator: what is there, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.isa.state import DRAM_BOUNDS, Dram, DramWindow, MachineFault


def test_rows_and_bounds() -> None:
    data = np.arange(64, dtype=np.uint8)
    dram = Dram([DramWindow(0x1000, data), DramWindow(0x2000, np.zeros(8, np.uint8), False)])
    assert dram.read(0x1004, 2, 10, 3).tolist() == [[4, 5], [14, 15], [24, 25]]
    dram.write(0x1000, np.array([[1, 2], [3, 4]], np.int8), 4)
    assert data[:8].tolist() == [1, 2, 2, 3, 3, 4, 6, 7]
    dram.write(0x1008, np.array([0x04030201], np.int32))
    assert data[8:12].tolist() == [1, 2, 3, 4]
    assert (dram.read_bytes, dram.write_bytes) == (6, 8)
    assert dram.tail(0x103E, 9) == bytes([62, 63])
    for refused in (
        lambda: dram.read(0x103F, 2),
        lambda: dram.read(0xFFF, 1),
        lambda: dram.write(0x2000, np.zeros(1, np.int8)),
        lambda: dram.tail(0x1040, 4),
    ):
        with pytest.raises(MachineFault) as fault:
            refused()
        assert fault.value.error == DRAM_BOUNDS
