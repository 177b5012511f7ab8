# SPDX-License-Identifier: Apache-2.0
"""What text from a file looks like in ours."""

from __future__ import annotations

from loadstone.printable import c_comment, one_line


def test_one_line() -> None:
    assert one_line("conv 1/ßé層") == "conv 1/ßé層"
    assert one_line(" a\n\tb\r\n") == "a b"
    assert one_line("\x1b[31m\x00\u202e\x7f") == "?[31m???"


def test_a_comment_of_c_ends_where_it_should() -> None:
    assert c_comment("a*/b/*c") == "a* /b/ *c"
    for text in ("*/", "**//", "/*/", "*/*", "//**", "*\n/"):
        assert "*/" not in c_comment(text)
        assert "/*" not in c_comment(text)
