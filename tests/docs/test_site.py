# SPDX-License-Identifier: Apache-2.0
"""The site's own parts: docstrings become Markdown, every page is in the navigation, nothing is
fetched. `make docs` builds it."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def as_markdown() -> Callable[[str], str]:
    """The function of docs/site/docstrings.py, which needs griffe: the extra `docs`."""
    if importlib.util.find_spec("griffe") is None:
        missing = "griffe is not installed: make docs"
        (pytest.fail if os.environ.get("LOADSTONE_NEED_ALL") else pytest.skip)(missing)
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs/site/docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[str], str] = module.as_markdown
    return function


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One line.", "One line.\n"),
        (
            "What it is.\n\nx, y: (N, C), which\n    goes on. Raises E.\nz: ties.",
            "What it is.\n\n- `x, y`: (N, C), which\n  goes on. Raises E.\n- `z`: ties.\n",
        ),
        (
            "T.\n\nIn:   a file,\n      or two.\nOut:  bytes.\n\n    a   b\n\n    c\nend",
            "T.\n\n- *In*: a file,\n  or two.\n- *Out*: bytes.\n\n"
            "```text\na   b\n\nc\n```\n\nend\n",
        ),
        ("T:\n  - a\n    b\n  - c", "T:\n\n- a\n  b\n- c\n"),
        ("T.\n\n>>> f(1)\n2\n\nU.", "T.\n\n```python\n>>> f(1)\n2\n```\n\nU.\n"),
        ("T.\nRaises E for x.", "T.\n**Raises** E for x.\n"),
    ],
)
def test_docstrings_become_markdown(
    as_markdown: Callable[[str], str], text: str, wanted: str
) -> None:
    assert as_markdown(text) == wanted


def test_no_docstring_leaves_a_code_block_open(as_markdown: Callable[[str], str]) -> None:
    count = 0
    for path in sorted((ROOT / "python/loadstone").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                fences = [line for line in as_markdown(text).splitlines() if "```" in line]
                assert len(fences) % 2 == 0, f"{path}: {text}"
                count += 1
    assert count > 1000


def test_every_page_is_in_the_navigation_once() -> None:
    """MkDocs itself refuses names that are no page; a page outside it only makes it warn."""
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w/-]+\.md$", configuration, re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(named) == sorted(pages)


@pytest.mark.parametrize(
    "path",
    [
        f"docs/images/{name}.svg"
        for name in ("data-flow", "device", "any-scale-runs", "any-scale-tile", "any-scale-carry")
    ],
)
def test_a_picture_needs_nothing_from_elsewhere(path: str) -> None:
    text = Path(ROOT / path).read_text(encoding="utf-8")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "prefers-color-scheme: dark" in text


def test_the_tree_of_the_architecture_is_the_tree() -> None:
    """Its table names every folder of the package and of the repository, and no other."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The tree")[2].partition("\n## ")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`([\w/]+)/`", row)
    }
    package = ROOT / "python/loadstone"
    folders = {
        path.relative_to(ROOT).as_posix()
        for base in (ROOT, package)
        for path in base.iterdir()
        if path.is_dir() and not path.name.startswith((".", "_"))
    }
    outputs = {"build", "dist", "demo", "python"}  # what make and the demo write; a parent
    assert named - {"python/loadstone/vta/isa"} == folders - outputs | {"python/loadstone"}
    assert (package / "vta/isa").is_dir()
