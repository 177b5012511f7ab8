# SPDX-License-Identifier: Apache-2.0
"""The page of an instruction set."""

from __future__ import annotations

from loadstone.isa.page import page
from tests.isa import tokened
from tests.isa.tables import NPU


def test_page() -> None:
    text = page(NPU)
    assert "| pad | 64 | 16 int8 |" in text
    assert "## copy: opcode 1, 12 bytes\n\nRows from memory.\n" in text
    assert "| 8 to 47 | address | address / 16 | where |" in text
    assert "| 8 to 9 | mode | 0 add, 1 max, 2 relu |  |" in text
    assert "Unit dma, 1 + 2 * rows cycles." in text
    assert "It reads 16 of dram from address + i0 * stride on for i0 < rows." in text


def test_queues_are_a_table() -> None:
    text = page(tokened.table(tokened.CHAIN, "core"))
    assert "| tokens from | to | given by | taken by | at most |" in text
    assert "| back | core | push_prev | pop_next | 255 |" in text
    assert "tokens" not in page(tokened.table()).replace("of tokened", "")
