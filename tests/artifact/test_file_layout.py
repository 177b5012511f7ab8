# SPDX-License-Identifier: Apache-2.0
"""artifact/file_layout.py: sizes and order of what a file holds are those of runtime/FORMAT.md."""

from __future__ import annotations

import re

import pytest

from loadstone.artifact import file_layout
from loadstone.errors import ArtifactError
from tests.conftest import ROOT


def test_sections_stand_in_the_order_of_the_document() -> None:
    page = (ROOT / "runtime/FORMAT.md").read_text(encoding="utf-8")
    places = [page.find(f"| {name.replace('_', ' ')} |") for name in file_layout.SECTIONS]
    assert -1 not in places
    assert places == sorted(places)


def test_entries_have_the_sizes_that_c_reads() -> None:
    header = (ROOT / "runtime/format.h").read_text(encoding="utf-8")
    assert f"LDS_HEADER_BYTES = {file_layout.HEADER_BYTES}" in header
    public = (ROOT / "runtime/include/loadstone.h").read_text(encoding="utf-8")
    (count,) = re.findall(r"LDS_SECTIONS = (\d+)", public)
    assert int(count) == len(file_layout.SECTIONS) == len(file_layout.ENTRY_BYTES)


@pytest.mark.parametrize(
    ("value", "alignment", "aligned"), [(0, 64, 0), (1, 64, 64), (64, 64, 64), (65, 16, 80)]
)
def test_align_gives_the_next_multiple(value: int, alignment: int, aligned: int) -> None:
    assert file_layout.align(value, alignment) == aligned


def test_a_broken_rule_is_named() -> None:
    file_layout.require(True, "R1", "never said")
    with pytest.raises(ArtifactError, match=r"^too large \(rule R8 of runtime/FORMAT.md\)$"):
        file_layout.require(False, "R8", "too large")
