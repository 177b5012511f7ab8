# SPDX-License-Identifier: Apache-2.0
"""passes/page.py: docs/passes.md is what the list says; --update-golden writes it anew."""

from __future__ import annotations

from loadstone.passes.page import passes_page
from loadstone.passes.table import PASSES
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "passes.md"


def test_the_page_is_current(update_golden: bool) -> None:
    if update_golden:
        PAGE.write_text(passes_page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == passes_page(), (
        "docs/passes.md differs from passes/table.py: run pytest with --update-golden"
    )


def test_every_pass_has_a_row() -> None:
    rows = [line for line in passes_page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [entry.file_name for entry in PASSES]
    assert all(row.count(" | ") == 4 for row in rows)
