# SPDX-License-Identifier: Apache-2.0
"""tests/examples_table.py: a row is what the page says, and its outputs are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.examples_table import HEAD, TARGETS, networks_of, row
from tests.repeat import more

PAGE = (ROOT / "docs/bring-your-own-accelerator.md").read_text(encoding="utf-8")


def test_the_page_has_every_row() -> None:
    assert HEAD in PAGE
    for folder in TARGETS:
        assert PAGE.count(f" | {folder} | ") == 3


@pytest.mark.full
@pytest.mark.parametrize(
    ("folder", "network"),
    [
        ("gemmini", "ResNet8"),
        *(
            pytest.param(folder, network, marks=more)
            for folder in TARGETS
            for network in networks_of(folder)
            if (folder, network) != ("gemmini", "ResNet8")
        ),
    ],
)
def test_a_row_is_what_the_page_says(folder: str, network: str, shared: Path) -> None:
    assert row(folder, network) in PAGE
