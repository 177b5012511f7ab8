# SPDX-License-Identifier: Apache-2.0
"""Errors of other libraries, and names of tensors in files, as parts of one line.

In:   an exception of TVM, onnx or flatbuffers; a tensor name.
Out:  one short line of text.
Next: the frontends raise ModelErrors with them.
"""

from __future__ import annotations

__all__ = ["MAX_SCALE", "one_line", "short"]

#: No real number that a network computes is so large, and sums of products of such numbers leave
#: float32.
MAX_SCALE = 2.0**40

MAX_REASON = 200
MAX_NAME = 60


def one_line(error: BaseException) -> str:
    """The line that says most: the last, but no comment of a program, nor where a checker was; the
    class if there is no text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("#", "==> Context:"))] or [
        type(error).__name__
    ]
    return told[-1][:MAX_REASON]


def short(name: str) -> str:
    """Converters join the names of all that they fused: the end of it tells most."""
    return name if len(name) <= MAX_NAME else "..." + name[3 - MAX_NAME :]
