# SPDX-License-Identifier: Apache-2.0
"""docs/onnx.md: its table says what the converters of ONNX's operators read, as
frontend/onnx/table.py has it.

pytest tests/docs/test_onnx.py --update-golden writes the table anew: read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.frontend.onnx import importer, qoperator
from loadstone.frontend.onnx.table import ALL, CONVERTERS, NUMBERS, Reads

BEGIN = "<!-- generated: pytest tests/docs/test_onnx.py --update-golden -->\n"


def opsets(row: Reads) -> str:
    low, high = row.opsets
    if high == ALL:
        return "all" if low == 1 else f"{low} and later"
    return f"{low} to {high}" if low < high else str(low)


def count(number: int) -> str:
    return "any" if number == ALL else str(number)


def line(domain: str, op_type: str, row: Reads) -> str:
    name = f"{domain}: {op_type}" if domain else op_type
    constants = ", ".join(map(str, sorted(row.constants)))
    types = "" if row.types == NUMBERS else ", ".join(sorted(row.types))
    attributes = " ".join(f"`{name}`" for name in sorted(row.attributes))
    cells = [name, opsets(row), count(row.inputs), constants, count(row.outputs), attributes, types]
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    """Operators in alphabetical order, those of other domains at the end."""
    head = [
        "| operator | opsets | inputs | constants | outputs | attributes that are read | types |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = [
        line(domain, op_type, row)
        for (domain, op_type), entries in sorted(CONVERTERS.items())
        for row in entries
    ]
    rewritten = ", ".join(f"`{name}`" for name in sorted(qoperator._TABLE))
    behind = [
        "",
        f"To QDQ before anything else: {rewritten}.",
        "",
        f"Types, where a line says none: {', '.join(sorted(NUMBERS))}.",
        "",
    ]
    return "\n".join([*head, *rows, *behind])


def test_the_table_of_the_page_is_that_of_the_converters(
    root: Path, *, update_golden: bool
) -> None:
    page = root / "docs" / "onnx.md"
    before, mark, shown = page.read_text().partition(BEGIN)
    assert mark
    if update_golden:
        page.write_text(before + BEGIN + "\n" + table())
        return
    assert shown == "\n" + table(), "pytest tests/docs/test_onnx.py --update-golden"
    assert importer
