# SPDX-License-Identifier: Apache-2.0
"""docs/bring-your-own-accelerator.md: its commands, run in order as a new user runs them; those for
QEMU and Verilator, and a second case of each kind, in `make test-all`."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.forked import tools
from tests.repeat import ALL

MOST_SECONDS = 1800


@pytest.mark.full
def test_the_commands_of_the_page_work(tmp_path: Path, figure: Callable[[str], None]) -> None:
    page = (ROOT / "docs/bring-your-own-accelerator.md").read_text(encoding="utf-8")
    commands = [
        line
        for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
        if ALL or not any(tool in block for tool in ("qemu", "verilator"))
        for line in block.splitlines()
    ]
    assert len(commands) > 8
    path = os.pathsep.join([str(tools(tmp_path / "tools")), os.environ["PATH"]])
    package = str(ROOT / "python")
    begin = time.monotonic()
    for shown in commands:
        command = shown.replace("PYTHONPATH=mine", f"PYTHONPATH=mine{os.pathsep}{package}")
        if not ALL:
            command = command.replace("--cases 2", "--cases 1")
        env = {**os.environ, "PATH": path, "PYTHONPATH": package, "LOADSTONE": str(ROOT)}
        done = subprocess.run(
            command,
            shell=True,
            executable="/bin/bash",
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        # `! command` succeeds when the command finds what is wrong
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, f"{command}\n{done.stderr}"
        if command.startswith("! loadstone conform"):
            assert "WRONG conv2d" in done.stdout
    seconds = time.monotonic() - begin
    figure(f"bring your own accelerator: {len(commands)} commands in {seconds:.1f} s")
    assert seconds < MOST_SECONDS
    assert (tmp_path / "y.npz").is_file()


def test_the_page_names_every_pattern() -> None:
    patterns = pytest.importorskip("loadstone.partition.patterns")
    page = (ROOT / "docs/bring-your-own-accelerator.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"\*\*Names of patterns\*\*.*?\n\n", page, re.DOTALL)
    assert {entry.name for entry in patterns.OPERATOR_PATTERNS} == {
        name for name in re.findall(r"`([a-z_0-9]+)`", part) if name != "accepts"
    }
