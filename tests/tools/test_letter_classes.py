# SPDX-License-Identifier: Apache-2.0
"""tools/letter_classes.py: the header is what the library says, at the ends of every range and at
random letters; `python -m tools.letter_classes --check` asks about all."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from tests.conftest import ROOT
from tools.letter_classes import HEADER, classes_of, header_text, ranges

NAMES = ("letters", "numbers", "spaces", "digits_besides")


def written() -> dict[str, list[tuple[int, int]]]:
    text = (ROOT / HEADER).read_text(encoding="utf-8")
    return {
        name: [
            (int(first, 16), int(last, 16))
            for first, last in re.findall(r"\{0x([0-9A-F]+), 0x([0-9A-F]+)\}", body)
        ]
        for name, body in re.findall(r"class_(\w+)\[\]\[2\] = \{\n(.*?)\n\};", text, re.DOTALL)
    }


def test_the_header_is_current() -> None:
    known = written()
    assert tuple(known) == NAMES
    ends = {
        code
        for found in known.values()
        for pair in found
        for end in pair
        for code in (end - 1, end, end + 1)
    }
    rng = random.Random(0)
    asked = sorted({*ends, *range(0x250), *(rng.randrange(0x110000) for _ in range(4000))})
    for name, codes in classes_of(asked).items():
        inside = [c for c in asked if any(first <= c <= last for first, last in known[name])]
        assert inside == codes, name


def test_it_is_written_as_it_stands() -> None:
    codes = {
        name: [code for first, last in found for code in range(first, last + 1)]
        for name, found in written().items()
    }
    assert header_text(codes) == (ROOT / HEADER).read_text(encoding="utf-8")


def test_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert ranges([]) == []
