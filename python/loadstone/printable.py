# SPDX-License-Identifier: Apache-2.0
"""Text from a file, made fit for a line of ours: a terminal, a comment of a listing or of C.

In:   any text: names in an artifact are whatever somebody has written there.
Out:  one line without control characters.
Next: the commands, the listing, the exported header.
"""

from __future__ import annotations

__all__ = ["c_comment", "one_line"]


def one_line(text: object) -> str:
    """Runs of white space are one space; what is not visible, such as an escape sequence's first
    character, is a question mark."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))


def c_comment(text: object) -> str:
    """The same, and neither end nor beginning of a comment in C."""
    return one_line(text).replace("*/", "* /").replace("/*", "/ *")
