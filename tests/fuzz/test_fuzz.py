"""A minute of libFuzzer with ASan and UBSan on the simulator (`python -m tests.fuzz 600` for
ten)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.board.tools import missing, need
from tests.fuzz.__main__ import build, main


@pytest.mark.full
def test_a_minute_of_arbitrary_streams_and_configurations_finds_nothing(tmp_path: Path) -> None:
    need("clang++", "clang libclang-rt-14-dev")
    try:
        build(tmp_path)
    except subprocess.CalledProcessError:
        missing("libFuzzer is missing: apt-get install libclang-rt-14-dev")
    assert main(60, tmp_path) == 0
