# SPDX-License-Identifier: Apache-2.0
"""tools/generated_page.py: a page is written once, and --check writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generated_page import keep_current


def test_a_page_is_written_or_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    assert keep_current("tools.page", page, "text\n", ["--check"]) == 1
    assert capsys.readouterr().out == "docs/page.md is not current\n"
    assert not page.exists()
    assert keep_current("tools.page", page, "text\n", []) == 0
    assert capsys.readouterr().out == "wrote page.md\n"
    assert keep_current("tools.page", page, "text\n", ["--check"]) == 0
    assert keep_current("tools.page", page, "other\n", ["--check"]) == 1
    assert page.read_text(encoding="utf-8") == "text\n"
