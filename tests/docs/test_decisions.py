# SPDX-License-Identifier: Apache-2.0
"""The records of docs/decisions/: a number names one record, what is replaced says by what, and
each page is in the index and in the site's navigation.

In:   docs/decisions/*.md; mkdocs.yml
Out:  a complaint with the page and the number
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT

FOLDER = ROOT / "docs/decisions"
INDEX = FOLDER / "index.md"
REPLACED = FOLDER / "replaced.md"
#: A record begins with its number and its choice as a sentence, and may go on in the same line.
RECORD = re.compile(r"^\*\*(\d+)\. ([^*]+)\*\*(.*(?:\n.+)*)", re.MULTILINE)
#: The numbers that the first forty records left free.
NEVER_GIVEN = {17, 18, 19}
#: A record is read in half a minute.
MOST_WORDS = 210


def pages() -> list[Path]:
    return [path for path in sorted(FOLDER.glob("*.md")) if path != INDEX]


def records(path: Path) -> list[tuple[int, str, str]]:
    """(number, title, text) of each record of a page."""
    text = path.read_text(encoding="utf-8")
    return [(int(found[1]), found[2], found[3]) for found in RECORD.finditer(text)]


def test_each_number_names_one_record_and_none_is_left_out() -> None:
    places: dict[int, list[str]] = {}
    for page in pages():
        for number, _, _ in records(page):
            places.setdefault(number, []).append(page.name)
    twice = {number: found for number, found in places.items() if len(found) > 1}
    assert not twice, f"a number stands in more than one place: {twice}"
    missing = set(range(1, max(places) + 1)) - set(places) - NEVER_GIVEN
    assert not missing, f"numbers without a record: {sorted(missing)}"


def test_every_paragraph_of_a_page_belongs_to_a_record() -> None:
    """So that a record whose beginning is written otherwise is not overlooked above."""
    for page in pages():
        blocks = page.read_text(encoding="utf-8").strip().split("\n\n")
        assert blocks[0].startswith("# "), f"{page.name}: a page begins with its title"
        assert blocks[1][0] not in "*#", f"{page.name}: its second paragraph says what it is about"
        odd = [block for block in blocks[2:] if not re.match(r"## |\*\*\d+\. ", block)]
        assert not odd, f"{page.name}: a paragraph without a number: {odd[0][:60]}"


def test_records_are_short() -> None:
    for page in pages():
        for number, title, text in records(page):
            words = len(f"{title} {text}".split())
            assert words <= MOST_WORDS, f"{page.name}: {number} has {words} words"


def test_what_is_replaced_names_a_record_that_stands() -> None:
    standing = {number for page in pages() if page != REPLACED for number, _, _ in records(page)}
    replaced = records(REPLACED)
    assert replaced
    for number, _, text in replaced:
        found = re.match(r" \(replaced by (\d+)\)\.", text)
        assert found, f"{number}: `(replaced by N).` is missing behind its title"
        assert int(found[1]) in standing, f"{number}: {found[1]} is no record that stands"
    for page in pages():
        if page != REPLACED:
            assert "replaced by " not in "".join(text[:30] for _, _, text in records(page)), (
                f"{page.name}: what is replaced belongs to {REPLACED.name}"
            )


def test_numbers_that_a_record_names_exist() -> None:
    known = {number for page in pages() for number, _, _ in records(page)}
    for page in pages():
        for number, _, text in records(page):
            for other in re.findall(r"\((\d{2,3})\)|\b[Ss]ince (\d{2,3})\b", text):
                value = int(other[0] or other[1])
                assert value in known, f"{page.name}: {number} names {value}"


def test_every_page_is_in_the_index_and_in_the_navigation() -> None:
    index = INDEX.read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in pages():
        assert f"]({page.name})" in index, f"{page.name} is not in {INDEX.name}"
        assert f": decisions/{page.name}\n" in navigation, f"{page.name} is not in mkdocs.yml"
