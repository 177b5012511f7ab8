# SPDX-License-Identifier: Apache-2.0
"""tools/api_text.py: the plain text of the Python reference is current, and says what the modules
say."""

from __future__ import annotations

import ast

import pytest

from tests.conftest import ROOT
from tools.api_text import PAGES, main, stale, text_of


def test_the_files_are_current() -> None:
    assert stale(ROOT) == []
    assert main(["--check"]) == 0


@pytest.mark.parametrize("page", PAGES)
def test_every_public_name_is_there(page: str) -> None:
    """Of each module that the page names, with the file where it is found."""
    text = text_of(ROOT, page)
    for line in text.splitlines():
        if not line.startswith("==== "):
            continue
        file = ROOT / line.split(": ")[1]
        begin = text.index(line)
        own = text[begin : text.find("\n==== ", begin)]
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert f"class {node.name}" in own, node.name
    assert f"[as plain text]({page}.txt)" in (ROOT / f"docs/api/{page}.md").read_text()


def test_a_field_and_a_method_are_said() -> None:
    text = text_of(ROOT, "isa")
    assert "    reset: int | None = None" in text
    assert "The least value that it may have." in text
