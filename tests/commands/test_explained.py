# SPDX-License-Identifier: Apache-2.0
"""commands/explained.py: a line for each operator, its cycles in all and those of computing."""

from __future__ import annotations

from typing import Any

from loadstone.commands.explained import explained_rows, some_names, table


def row(**others: Any) -> dict[str, Any]:
    return {
        "operator": "net/conv",
        "kind": "conv2d",
        "shape": [1, 6, 6, 8],
        "macs": 20736,
        "cycles": 1704,
        "compute_busy_cycles": 1415,
        "where": "vta",
        "why": "",
        "remedy": "",
        **others,
    }


def test_a_line_has_both_counts_of_cycles() -> None:
    head, line = table([row()]).splitlines()
    assert head.split() == ["operator", "kind", "shape", "MACs", "cycles", "computing", "where"]
    assert line.split() == ["conv", "conv2d", "1x6x6x8", "20,736", "1,704", "1,415", "vta"]
    titles, (cells,) = explained_rows([row()])
    assert dict(zip(titles, cells, strict=True))[">computing"] == "1,415"


def test_what_stays_on_the_host_says_why() -> None:
    rows = [row(), row(operator="net/sin", cycles=None, compute_busy_cycles=None, macs=0)]
    rows[1] |= {"where": "host", "why": "vta: no sine", "remedy": "a table"}
    lines = table(rows).splitlines()
    assert lines[2].split() == ["sin", "conv2d", "1x6x6x8", "host"]
    assert lines[3:] == ["    why: vta: no sine", "    what would change it: a table"]
    assert explained_rows(rows)[1][1][-1] == "vta: no sine; a table"


def test_many_names_are_counted() -> None:
    assert some_names(["a", "b"]) == "a, b"
    assert some_names([str(n) for n in range(10)]).endswith(", 7 and 2 more (--explain names them)")
