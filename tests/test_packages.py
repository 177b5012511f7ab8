# SPDX-License-Identifier: Apache-2.0
"""packages/: each asks for the Loadstone of the same checkout. Beside each stand its own tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = sorted((ROOT / "packages").glob("*/pyproject.toml"))


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: file.parent.name)
def test_a_package_is_for_the_loadstone_beside_it(file: Path) -> None:
    main = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    assert said["name"] == file.parent.name
    assert said["version"] == main["version"]
    (needed,) = [word for word in said["dependencies"] if word.startswith("loadstone")]
    extras, _, version = needed.removeprefix("loadstone[").partition("]==")
    assert version == main["version"]
    assert set(extras.split(",")) <= set(main["optional-dependencies"])


def test_there_are_packages() -> None:
    assert [file.parent.name for file in PACKAGES] == ["loadstone-executorch", "loadstone-mlonmcu"]
