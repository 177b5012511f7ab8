# SPDX-License-Identifier: Apache-2.0
"""CITATION.cff and docs/releasing.md: one version, and commands and files that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (the extra `search`)")


def test_the_citation_has_what_its_format_asks_for_and_the_version(root: Path) -> None:
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert re.fullmatch(r"1\.\d+\.\d+", str(cited["cff-version"]))
    assert all(author.get("name") or author.get("family-names") for author in cited["authors"])
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == project["version"]
    assert cited["license"] == project["license"]["text"]
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(project['version'])} ", changes, re.MULTILINE)


def test_every_target_of_the_checklist_exists(root: Path) -> None:
    page = (root / "docs/releasing.md").read_text(encoding="utf-8")
    targets = {word for said in re.findall(r"`make ([a-z- ]+)`", page) for word in said.split()}
    assert {"check", "test-all", "models", "figures", "wheels", "sbom"} <= targets
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for script in re.findall(r"`(\.ci/[a-z-]+)`", page):
        assert (root / script).is_file(), script
    for module in re.findall(r"`python -m ([a-z.]+)", page):
        assert (root / f"{module.replace('.', '/')}.py").is_file(), module
