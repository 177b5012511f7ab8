# SPDX-License-Identifier: Apache-2.0
"""The page of an instruction set."""

from __future__ import annotations

from loadstone.isa.page import page
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.device.instruction_table import instruction_table
from tests.isa import gather, tokened
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


def test_words_registers_and_what_is_forbidden() -> None:
    text = page(gather.table())
    assert "Words of index:\n\n| bits | field | meaning |\n| --- | --- | --- |\n" in text
    assert "| 8 to 12 | target |  |" in text
    assert "Address register base, 1 of them: is set by instructions." in text
    assert "Unit by memory (core for 0, in for 1), 4 + 3 * rows cycles." in text
    assert "It is no instruction where (row+rows>60) is not 0." in text
    assert "It ends a program, when all that comes before is done." in text
    assert (
        "It reads 1 of pad from index[w].source + i0 * step on for begin <= w < end for i0 < turns."
    ) in text
    vta = page(instruction_table(load_config("vta-pynq")))
    assert "Address register region_base, 8 of them: begins at a region." in vta
