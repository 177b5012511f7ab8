"""Ten seconds of libFuzzer with ASan and UBSan on the simulator, a minute in `make test-all`
(`python -m tests.fuzz 600` for ten)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.board.tools import missing, need
from tests.fuzz.__main__ import build, fuzz
from tests.repeat import times


@pytest.mark.full
def test_arbitrary_streams_and_configurations_find_nothing(tmp_path: Path) -> None:
    need("clang++", "clang libclang-rt-14-dev")
    try:
        target = build(tmp_path)
    except subprocess.CalledProcessError:
        missing("libFuzzer is missing: apt-get install libclang-rt-14-dev")
    assert fuzz(target, times(10, 60), tmp_path) == 0
