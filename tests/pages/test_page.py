# SPDX-License-Identifier: Apache-2.0
"""pages/page.py: one file that asks for nothing, with whatever names a model has."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from loadstone.pages.page import LIBRARIES, page
from tests.page_assets import ASSETS, FOLDER


def test_libraries_are_the_pinned_ones() -> None:
    for name, digest in ASSETS.values():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    known = {name for name, _ in ASSETS.values()} | {"README.md"}
    assert {path.name for path in FOLDER.iterdir()} == known
    assert {name for files in LIBRARIES.values() for name in files} <= known
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1 << 20


def test_licences_and_versions_are_noted() -> None:
    note = (FOLDER / "README.md").read_text(encoding="utf-8")
    for package, _ in ASSETS:
        assert package.rpartition("@")[2] in note
    for licence in FOLDER.glob("*.LICENSE"):
        assert "Permission is hereby granted, free of charge" in licence.read_text(encoding="utf-8")
        assert licence.name in note


def test_nothing_is_fetched_and_no_name_is_markup() -> None:
    hostile = "</script><script>alert(1)</script><!--"
    text = page(hostile, "profile", ["uplot"], {"model": hostile})
    assert "<title>&lt;/script&gt;" in text
    assert text.count("<script>alert") == 0
    assert not re.search(r'(?:src|href)="', text)
    assert "Content-Security-Policy" in text
    assert "sourceMappingURL" not in text


def test_every_script_is_there(root: Path) -> None:
    for script in ("profile", "explain", "shared", "sweep"):
        assert (root / f"python/loadstone/pages/{script}.js").is_file()
