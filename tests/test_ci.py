# SPDX-License-Identifier: Apache-2.0
""".ci/: every command of CI is a slice with a budget, and .ci/slice says what one took."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

#: What the budgets may come to: CI is to take less than twenty minutes.
ALL_SECONDS = 20 * 60


def budgets(root: Path) -> dict[str, int]:
    lines = (root / ".ci/budgets.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {name: int(seconds) for name, seconds in rows}


def test_every_command_is_a_slice_with_a_budget(root: Path) -> None:
    text = (root / ".ci/run").read_text(encoding="utf-8")
    commands = re.findall(r"^(?!#|set |cd |export |rm |trap )(.+)$", text, re.MULTILINE)
    slices = [re.match(r"\.ci/slice (\S+) ", command) for command in commands]
    assert [found[1] if found else None for found in slices] == list(budgets(root))
    assert sum(budgets(root).values()) <= ALL_SECONDS


@pytest.fixture
def sliced(root: Path, tmp_path: Path) -> Path:
    """.ci/slice of a project whose slices take a second."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(root / ".ci/slice", tmp_path / ".ci")
    (tmp_path / ".ci/budgets.txt").write_text("# said\nfast 60\nlong 1\n", encoding="utf-8")
    return tmp_path


def ran(project: Path, *words: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [project / ".ci/slice", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_a_slice_says_what_it_took_and_fails_as_its_command_does(sliced: Path) -> None:
    for command, wanted in (("true", 0), ("exit 3", 3)):
        status, lines = ran(sliced, "fast", "sh", "-c", command)
        assert status == wanted
        assert re.fullmatch(r"fast \d+ s of 60 s", lines[-1])
    assert re.fullmatch(r"all \d+ s of 120 s", ran(sliced)[1][-1])


def test_a_slice_over_its_budget_is_named_and_one_that_hangs_is_ended(sliced: Path) -> None:
    status, lines = ran(sliced, "long", "sleep", "60")
    assert status == 124
    assert re.fullmatch(r"long \d+ s of 1 s: over its budget", lines[-1])


def test_a_slice_without_a_budget_is_refused(sliced: Path) -> None:
    assert ran(sliced, "other", "true") == (2, ["other has no budget in .ci/budgets.txt"])
    assert ran(sliced) == (0, [])
