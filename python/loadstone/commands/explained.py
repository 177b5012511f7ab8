# SPDX-License-Identifier: Apache-2.0
"""The output of `loadstone compile --explain`: where each operator runs, why, and for how long.

In:   the rows of Compiled.explain.
Out:  a table, for a pipe and for a terminal; where the device can turn to another network.
Next: commands/compile.py prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadstone.analysis.names import short_names
from loadstone.analysis.switching import switching
from loadstone.errors import SimulationError
from loadstone.files import JsonObject

if TYPE_CHECKING:
    from loadstone.analysis.compiled import Compiled

__all__ = ["explained_rows", "some_names", "switches_text", "table"]


def table(rows: list[JsonObject]) -> str:
    """The rows of Compiled.explain as text; the reason and remedy of an operator on the host, and
    costs, are on separate lines."""
    lines = [
        f"{'operator':<48} {'kind':<16} {'shape':<16} {'MACs':>12} {'cycles':>9} {'computing':>9}  where"
    ]
    short = short_names([row["operator"] for row in rows])
    for row in rows:
        shape = "x".join(map(str, row["shape"])) or "1"
        cycles, busy = _cycles(row)
        macs = f"{row['macs']:,}" if row["macs"] else ""
        lines.append(
            f"{_short(short[row['operator']], 48):<48} {row['kind']:<16} {shape:<16} {macs:>12} "
            f"{cycles:>9} {busy:>9}  {row['where']}"
        )
        if row.get("how"):
            lines.append(f"    how: {row['how']}")
        if row["why"]:
            lines.append(f"    why: {row['why']}")
        if row["remedy"]:
            lines.append(f"    what would change it: {row['remedy']}")
        if row.get("alternatives"):
            lines.append(f"    costs: {', '.join(map(_cost, row['alternatives']))}")
    return "\n".join(lines)


_EXPLAINED = (
    "operator",
    "kind",
    "shape",
    ">MACs",
    ">cycles",
    ">computing",
    "where",
    "why, and what would change it",
)


def explained_rows(rows: list[JsonObject]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles, `>` before those of numbers, and the cells of each operator, for a terminal."""
    short = short_names([row["operator"] for row in rows])
    return _EXPLAINED, [_explained(row, short) for row in rows]


def _explained(row: JsonObject, short: Mapping[str, str]) -> tuple[str, ...]:
    """The same row for a terminal: the separate lines are in one cell."""
    notes = (
        row.get("how"),
        row["why"],
        row["remedy"],
        ", ".join(map(_cost, row.get("alternatives") or ())),
    )
    return (
        short[row["operator"]],
        row["kind"],
        "x".join(map(str, row["shape"])) or "1",
        f"{row['macs']:,}" if row["macs"] else "",
        *_cycles(row),
        row["where"],
        "; ".join(note for note in notes if note),
    )


def _cycles(row: JsonObject) -> tuple[str, str]:
    """Its cycles in total, and those in which the compute stage works for it."""
    counted = (row["cycles"], row["compute_busy_cycles"])
    whole, busy = ("" if count is None else f"{count:,}" for count in counted)
    return whole, busy


def _cost(alternative: JsonObject) -> str:
    """`vta.conv2d 57.7 us (26.0 us transfers)`: transfers copy the inputs to the device and the
    outputs back."""
    transfers = (
        f" ({alternative['transfer_us']:.1f} us transfers)" if alternative["transfer_us"] else ""
    )
    return f"{alternative['place']}.{alternative['pattern']} {alternative['us']:.1f} us{transfers}"


def _short(text: str, width: int) -> str:
    """Shortened in the middle, because the ends of a name identify the layer and its operation."""
    head = (width - 3) // 2
    return text if len(text) <= width else f"{text[:head]}...{text[head + 3 - width :]}"


def some_names(names: list[str], most: int = 8) -> str:
    """The first names, and the number of others."""
    more = f" and {len(names) - most} more (--explain names them)" if len(names) > most else ""
    return ", ".join(_short(name, 40) for name in names[:most]) + more


def switches_text(compiled: Compiled) -> str:
    """How far apart the device can turn to another network, where it is simulated; an empty line
    behind it."""
    try:
        return f"switches: {switching(compiled.artifact, compiled.device)}\n"
    except SimulationError:
        return ""
