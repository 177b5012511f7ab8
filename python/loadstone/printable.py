# SPDX-License-Identifier: Apache-2.0
"""Text from a file, made fit for a line of ours: a terminal, a comment of a listing or of C.

In:   any text: names in an artifact are whatever somebody has written there.
Out:  one line without control characters; a string of C; whether a text is a plain name.
Next: the commands, the listing, the exported header; readers of device files.
"""

from __future__ import annotations

import re

__all__ = ["PLAIN_NAME", "c_comment", "c_string", "is_plain_name", "one_line"]

#: What is_plain_name takes, for messages.
PLAIN_NAME = "1 to 64 letters, digits, and . _ + -, with a letter or digit first"


def is_plain_name(text: str) -> bool:
    """Whether a text is fit for every place where a device's name comes to stand: a file's name, a
    comment or string of C and of SystemVerilog, a word of a command."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", text) is not None


def one_line(text: object) -> str:
    """Runs of white space are one space; what is not visible, such as an escape sequence's first
    character, is a question mark."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))


def c_comment(text: object) -> str:
    """The same, and neither end nor beginning of a comment in C."""
    return one_line(text).replace("*/", "* /").replace("/*", "/ *")


def c_string(text: str) -> str:
    """A literal of C, with its quotes; bytes of UTF-8 that are no plain letters in octal."""
    letters = (
        chr(b) if (chr(b).isalnum() and b < 128) or b in b"._- " else f"\\{b:03o}"
        for b in text.encode()
    )
    return '"' + "".join(letters) + '"'
