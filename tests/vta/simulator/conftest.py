# SPDX-License-Identifier: Apache-2.0
"""What several tests of the simulator need.

In:   ../shared/vta_rtl, for replays and traces; Verilator, for tests of the hardware.
Out:  `conv`, a convolution recorded on VTA's RTL; `verilator`, which skips where it is absent
      (in CI the test fails).
Next: test_replay.py, test_trace.py; test_rtl*.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.vta.simulator.vectors import Vector, load_vectors
from tests.board.tools import need


@pytest.fixture(scope="module")
def conv(shared: Path) -> Vector:
    return load_vectors([shared / "vta_rtl" / "conv_conv3x3_v1.npz"])[0]


@pytest.fixture(scope="session")
def verilator() -> None:
    """Skips where Verilator is absent."""
    need("verilator", "verilator")
