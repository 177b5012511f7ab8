# SPDX-License-Identifier: Apache-2.0
"""Tables: plain text in a pipe, drawn in a terminal that is wide or narrow.

In:   titles and cells; the text for a pipe.
Out:  the table on stdout.
Next: the commands that print tables.

In a terminal `rich` draws them, where it is installed (the extra `terminal`). It is imported only
then, so that a pipe, a board and a short command never wait for the import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

__all__ = ["print_table"]


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], plain: str, foot: str = ""
) -> None:
    """Prints a table. heads: a title that begins with `>` belongs to a column of numbers. plain:
    the whole text for a pipe, table and foot. foot: lines below the table."""
    if not _draws() or not _drawn(heads, rows):
        print(plain)
    elif foot:
        print(foot)


def _draws() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _drawn(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """False where rich is not installed, and nothing was printed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for head in heads:
        number = head.startswith(">")
        table.add_column(
            head.removeprefix(">"),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
    return True
