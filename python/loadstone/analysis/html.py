# SPDX-License-Identifier: Apache-2.0
"""Small HTML tables for notebooks.

In:   names and values.
Out:  HTML; all text escaped.
Next: loaded.py, report.py and compiled.py return it from `_repr_html_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["facts_table", "rows_table"]


def facts_table(title: str, rows: Mapping[str, object]) -> str:
    """A line for each fact."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(str(name))}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<b>{escape(title)}</b><table>{lines}</table>"


def rows_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], foot: str) -> str:
    """A table with a line of titles, and a text below it."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<b>{escape(title)}</b><table><tr>{head}</tr>{body}</table><p>{escape(foot)}</p>"
