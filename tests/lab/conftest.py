# SPDX-License-Identifier: Apache-2.0
"""The built lab, where it is, and the programs that solve its exercises."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.board.tools import ROOT, need
from tools.lab.__main__ import digest

#: Exercise -> a program that solves it.
SOLUTIONS = {
    path.stem.split("-")[1]: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests/lab/solutions").glob("*.txt"))
}
Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def lab() -> Path:
    """build/lab; skips where `make lab` was not run since the sources changed, as CI does first."""
    folder = ROOT / "build/lab"
    made_of = folder / "sources.txt"
    if not made_of.is_file() or made_of.read_text(encoding="utf-8") != digest(ROOT):
        missing = "the lab is not built, or of other sources: make lab"
        (pytest.fail if os.environ.get("LOADSTONE_NEED_ALL") else pytest.skip)(missing)
    return folder


@pytest.fixture(scope="session")
def ask(lab: Path) -> Ask:
    """`ask({"what": ...}, ...)`: the answers of the lab in Node (in_node.mjs)."""
    need("node", "nodejs")

    def answers(*requests: dict[str, object]) -> list[Any]:
        command = ["node", str(ROOT / "tests/lab/in_node.mjs"), str(lab)]
        done = subprocess.run(
            command, input=json.dumps(requests), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    return answers
