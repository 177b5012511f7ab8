# SPDX-License-Identifier: Apache-2.0
"""Commands that are killed leave old files, or new ones, whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.repeat import times

pytest.importorskip("optuna", reason="Optuna is not installed (the extra `search`)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `search`)")


def test_killed_at_random_instants_nothing_is_broken() -> None:
    """A process of its own, which has no threads, copies itself for each command."""
    words = [sys.executable, "-m", "tests.kill_campaign", "--count", str(times(12, 1000))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken files" in done.stdout
