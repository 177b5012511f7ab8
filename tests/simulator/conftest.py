"""A convolution recorded on VTA's RTL, for the tests of replays and traces.

In:   ../shared/vta_rtl.
Out:  `conv`, a fixture.
Next: test_replay.py, test_trace.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.simulator.vectors import Vector, load_vectors


@pytest.fixture(scope="module")
def conv(shared: Path) -> Vector:
    return load_vectors([shared / "vta_rtl" / "conv_conv3x3_v1.npz"])[0]
