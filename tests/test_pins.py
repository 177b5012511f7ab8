# SPDX-License-Identifier: Apache-2.0
"""pins.py: what CI installs is named by version and digest, and is what the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests import pins


def test_every_dependency_of_ours_is_pinned_with_a_digest(root: Path) -> None:
    text = pins.FILE.read_text(encoding="utf-8").splitlines()
    rows = [line for line in text if line and not line.startswith("#")]
    found = [re.fullmatch(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", r) for r in rows]
    assert all(found), rows
    names = {match[1] for match in found if match}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in ("terminal", "compiler", "torch", "search", "images", "dev"):
        wanted += project["optional-dependencies"][extra]
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None
        assert name[0].lower().replace("_", "-") in {*names, "loadstone"}, requirement
    assert (root / ".ci/run").read_text(encoding="utf-8").count("PINS=.ci/pins.txt") == 1


def test_a_report_becomes_lines() -> None:
    archive = {"archive_info": {"hashes": {"sha256": "0" * 64}}}
    report = [
        {"metadata": {"name": "B_b", "version": "1"}, "download_info": archive},
        {"metadata": {"name": "loadstone", "version": "0"}, "download_info": {"dir_info": {}}},
    ]
    assert pins.lines(report) == [f"b-b==1 --hash=sha256:{'0' * 64}"]
