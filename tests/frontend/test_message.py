# SPDX-License-Identifier: Apache-2.0
"""frontend/message.py: other people's errors and long names as parts of one line."""

from __future__ import annotations

import pytest

from loadstone.frontend.message import MAX_NAME, MAX_REASON, one_line, short


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one", "one"),
        ("Traceback:\n  File a.py\nValueError: the reason\n", "ValueError: the reason"),
        ("the reason\n# from tvm import x\n==> Context: node\n", "the reason"),
        ("", "ValueError"),
        ("# only a comment", "ValueError"),
    ],
)
def test_the_line_that_says_most(text: str, line: str) -> None:
    assert one_line(ValueError(text)) == line


def test_a_reason_and_a_name_have_an_end() -> None:
    assert len(one_line(ValueError("x" * 1000))) == MAX_REASON
    name = "a/" * 50 + "BiasAdd"
    assert len(short(name)) == MAX_NAME
    assert short(name).endswith("/BiasAdd")
    assert short(name).startswith("...")
    assert short("conv") == "conv"
