# SPDX-License-Identifier: Apache-2.0
"""What text from a file looks like in ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

from loadstone.printable import c_comment, c_string, is_plain_name, one_line


def test_one_line() -> None:
    assert one_line("conv 1/ßé層") == "conv 1/ßé層"
    assert one_line(" a\n\tb\r\n") == "a b"
    assert one_line("\x1b[31m\x00\u202e\x7f") == "?[31m???"


def test_a_comment_of_c_ends_where_it_should() -> None:
    assert c_comment("a*/b/*c") == "a* /b/ *c"
    for text in ("*/", "**//", "/*/", "*/*", "//**", "*\n/"):
        assert "*/" not in c_comment(text)
        assert "/*" not in c_comment(text)


def test_a_string_of_c_is_the_text_whatever_it_holds(tmp_path: Path) -> None:
    """As gcc reads it, trigraphs too."""
    texts = ["plain-1.0", 'a"b\\', "x */ int y; /*", "\n??/", "%s\t\0017", "ß層", ""]
    literals = ", ".join(map(c_string, texts))
    (tmp_path / "a.c").write_text(
        f"#include <stdio.h>\nstatic const char *const texts[] = {{{literals}}};\n"
        "int main(void) {\n  for (unsigned k = 0; k < sizeof texts / sizeof texts[0]; ++k)\n"
        "    fwrite(texts[k], 1, __builtin_strlen(texts[k]) + 1, stdout);\n  return 0;\n}\n"
    )
    words = ["gcc", "-std=c99", "-trigraphs", tmp_path / "a.c", "-o", tmp_path / "a"]
    subprocess.run(words, check=True)
    out = subprocess.run([tmp_path / "a"], capture_output=True, check=True).stdout
    assert out.decode().split("\0")[:-1] == texts


def test_a_plain_name_is_one_word_everywhere() -> None:
    assert all(map(is_plain_name, ["a", "vtaq-1x16x16", "VTA_2.0+x", "9" * 64]))
    for text in ["", "-a", ".a", "a b", "a/b", "a\n", "a*/", 'a"', "ß", "9" * 65, "a;b", "$a"]:
        assert not is_plain_name(text)
