# SPDX-License-Identifier: Apache-2.0
"""analysis/html.py: names of models are text."""

from __future__ import annotations

from loadstone.analysis.html import facts_table, rows_table


def test_text_is_escaped() -> None:
    for made in (
        facts_table("<b>", {"<i>": "<u>"}),
        rows_table("<b>", ["<i>"], [["<u>"]], "<s>"),
    ):
        assert not any(tag in made for tag in ("<i>", "<u>", "<s>"))
        assert "&lt;i&gt;" in made
