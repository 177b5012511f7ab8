# SPDX-License-Identifier: Apache-2.0
"""tools/lab/__main__.py: a lab of other sources is known."""

from __future__ import annotations

from pathlib import Path

from tools.lab.__main__ import digest


def test_the_digest_is_of_content_and_of_names(tmp_path: Path) -> None:
    page = tmp_path / "lab/page"
    page.mkdir(parents=True)
    seen = {digest(tmp_path)}
    (page / "a.mjs").write_text("1")
    seen.add(digest(tmp_path))
    (page / "a.mjs").write_text("2")
    seen.add(digest(tmp_path))
    (page / "a.mjs").rename(page / "b.mjs")
    seen.add(digest(tmp_path))
    (page / "notes.txt").write_text("no part of it")
    seen.add(digest(tmp_path))
    assert len(seen) == 4
