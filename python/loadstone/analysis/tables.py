# SPDX-License-Identifier: Apache-2.0
"""A ProfileReport as text and as CSV.

In:   a ProfileReport.
Out:  a table for a terminal; a CSV with a line for each layer.
Next: commands/profile.py prints and writes them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from loadstone.analysis.report import ProfileReport, Row

__all__ = ["CSV_COLUMNS", "csv_text", "profile_rows", "text_table", "totals_text"]

#: Columns of the CSV: title -> field of a Row, or `field.key` of one of its mappings. Units stand
#: in the titles.
CSV_COLUMNS: Mapping[str, str] = {
    "layer": "short",
    "name": "name",
    "step": "step",
    "where": "where",
    "how": "how",
    "kind": "kind",
    "shape": "shape",
    "begin_us": "begin_us",
    "end_us": "end_us",
    "us": "us",
    "share_percent": "share",
    "cycles": "cycles",
    "first_cycle": "first_cycle",
    "last_cycle": "last_cycle",
    "best_cycles": "best_cycles",
    "load_busy_cycles": "busy_cycles.load",
    "compute_busy_cycles": "busy_cycles.compute",
    "store_busy_cycles": "busy_cycles.store",
    "bound": "bound",
    **{
        f"{name.replace(' ', '_').lower()}_cycles": f"spent_cycles.{name}"
        for name in (
            "multipliers",
            "RQ",
            "ALU",
            "accumulator loads",
            "load channel",
            "store",
            "fetch",
            "token from load",
            "token from store",
            "other",
        )
    },
    "macs": "macs",
    "macs_share_percent": "macs_share",
    "executed_macs": "executed_macs",
    "utilisation_percent": "utilisation",
    "sqnr_db": "sqnr_db",
    "instructions": "instructions",
    "arena_bytes": "arena_bytes",
    "arena_share_percent": "arena_share",
    **{f"{m}_bytes": f"bytes.{m}" for m in ("inp", "wgt", "acc", "uop", "fetch", "out")},
    **{f"{m}_bus_cycles": f"bus_cycles.{m}" for m in ("inp", "wgt", "acc", "uop", "fetch", "out")},
}


_TITLES = (
    "layer",
    "where",
    "kind",
    "shape",
    ">cycles",
    ">us",
    ">share",
    ">util",
    ">best",
    "",
)


def csv_text(report: ProfileReport) -> str:
    """A line of titles, then a line for each layer; a field that does not apply is empty. Behind
    the columns that every report has stand those of units and memories of other devices."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = {**CSV_COLUMNS, **_further_columns(report)}
    writer.writerow(columns)
    for row in report.rows:
        writer.writerow(_cell(row, title, place) for title, place in columns.items())
    return out.getvalue()


def _further_columns(report: ProfileReport) -> dict[str, str]:
    """By title, those of the mappings that no column has yet."""
    known = set(CSV_COLUMNS.values())
    kinds = {"busy_cycles": "busy_cycles", "spent_cycles": "cycles"}
    kinds |= {"bytes": "bytes", "bus_cycles": "bus_cycles"}
    found = {}
    for field, ending in kinds.items():
        for key in dict.fromkeys(key for row in report.rows for key in getattr(row, field)):
            if f"{field}.{key}" not in known:
                found[f"{key.replace(' ', '_').lower()}_{ending}"] = f"{field}.{key}"
    return found


def _cell(row: Row, title: str, place: str) -> str:
    name, _, key = place.partition(".")
    value = getattr(row, name)
    if key:
        value = value.get(key)
    if value is None:
        return ""
    if title.endswith("_percent"):
        return f"{100 * value:.3f}"
    if isinstance(value, float):
        return f"{value:.6f}"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def profile_rows(report: ProfileReport) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The titles, with `>` before those of numbers, and the cells of each layer."""
    # without the network, only the multiplications that the device executes are known
    macs, field = (">MACs", "macs") if report.has_macs else (">executed", "executed_macs")
    titles: tuple[str, ...] = (*_TITLES[:4], macs, *_TITLES[4:-1])
    rows = [_cells(row, getattr(row, field)) for row in report.rows]
    if report.has_sqnr:
        titles = (*titles, ">SNR")
        rows = [
            (*cells[:-1], "" if row.sqnr_db is None else f"{row.sqnr_db:.1f} dB", cells[-1])
            for row, cells in zip(report.rows, rows, strict=True)
        ]
    return (*titles, _TITLES[-1]), rows


def totals_text(report: ProfileReport) -> str:
    """A line for each place, and one for all."""
    return "\n".join(_totals(report))


def text_table(report: ProfileReport) -> str:
    """A line for each layer, then the totals by place."""
    titles, rows = profile_rows(report)
    cells = [tuple(title.removeprefix(">") for title in titles), *rows]
    widths = [min(32, max(len(line[k]) for line in cells)) for k in range(len(titles))]
    lines = [
        "  ".join(
            cell.rjust(width) if titles[k].startswith(">") else _fit(cell, width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([*lines, "", totals_text(report)])


def _fit(text: str, width: int) -> str:
    return (text if len(text) <= width else f"{text[: width - 3]}...").ljust(width)


def _cells(row: Row, macs: int) -> tuple[str, ...]:
    return (
        row.short,
        row.where,
        row.kind,
        "x".join(map(str, row.shape)),
        f"{macs:,}" if macs else "",
        "" if row.cycles is None else f"{row.cycles:,}",
        f"{row.us:,.1f}",
        f"{100 * row.share:.1f} %",
        "" if row.utilisation is None else f"{100 * row.utilisation:.0f} %",
        "" if row.best_cycles is None else f"{row.best_cycles:,}",
        row.bound or row.how,
    )


def _totals(report: ProfileReport) -> Iterable[str]:
    for where, entry in report.totals.items():
        cycles = f", {entry['cycles']:,} cycles" if entry["cycles"] else ""
        yield (
            f"{where}: {entry['layers']} layer(s), {entry['us']:,.1f} us"
            f"{cycles} ({' and '.join(entry['how'])})"
        )
    if report.elapsed_cycles < report.cycles:
        yield f"side by side: {report.elapsed_cycles:,} cycles of {report.cycles:,}"
    yield f"together: {report.us:,.1f} us a run of {report.samples} sample(s)"
