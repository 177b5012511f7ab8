# SPDX-License-Identifier: Apache-2.0
"""Docstrings of this project as Markdown, for the API reference.

In:   docstrings as they stand in the code: a sentence, then paragraphs, `name, name: what it is`
      lines, indented examples; headers with In:, Out:, Next:.
Out:  the same as Markdown: lists for the names and the header's lines, code blocks for what is
      indented or an interactive example.
Next: mkdocstrings renders them; mkdocs.yml names this file as an extension of griffe.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import griffe

__all__ = ["DocstringsAsMarkdown", "as_markdown"]

#: `padding, strides: what they are` at the beginning of a line. An identifier, not a sentence.
_NAMES = re.compile(r"^([a-z_][\w.]*(?:, [a-z_][\w.]*)*): (\S.*)$")
_HEADER = re.compile(r"^(In|Out|Next): +(\S.*)$")
_ITEM = re.compile(r"^ *- (\S.*)$")


def as_markdown(text: str) -> str:
    """One docstring, its indentation already cleaned, as Markdown: blocks are told apart by their
    first line."""
    blocks = [_block(lines) for lines in _blocks(text)]
    return "\n\n".join(blocks).strip() + "\n"


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines that belong together. Empty lines end one, unless the next is code too."""
    block: list[str] = []
    kind = ""
    gap = 0
    for line in text.splitlines():
        if not line:
            gap += 1
            continue
        now = _kind(line, kind if not gap else "")
        if block and (now != kind or gap) and not (now == kind == "code"):
            yield block
            block = []
        block += [""] * (gap if block else 0) + [line]
        kind, gap = now, 0
    if block:
        yield block


def _kind(line: str, before: str) -> str:
    """What a line is; before: the kind of the line in front of it, "" behind an empty line."""
    if _NAMES.match(line) or _HEADER.match(line):
        return "names"
    if _ITEM.match(line):
        return "list"
    if before == "example" or line.startswith(">>> "):
        return "example"
    if line.startswith(" "):
        return before if before in ("names", "list") else "code"
    return "text"


def _block(lines: list[str]) -> str:
    kind = _kind(lines[0], "")
    if kind in ("code", "example"):
        code = textwrap.dedent("\n".join(lines))
        return f"```{'python' if kind == 'example' else 'text'}\n{code}\n```"
    if kind == "text":
        return "\n".join(re.sub(r"^Raises ", "**Raises** ", line) for line in lines)
    items = []
    for line in lines:
        if match := _NAMES.match(line):
            items.append(f"- `{match[1]}`: {match[2]}")
        elif match := _HEADER.match(line):
            items.append(f"- *{match[1]}*: {match[2]}")
        elif match := _ITEM.match(line):
            items.append(f"- {match[1]}")
        else:
            items.append(f"  {line.strip()}")
    return "\n".join(items)


class DocstringsAsMarkdown(griffe.Extension):
    """Changes every docstring as it is collected."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
