# SPDX-License-Identifier: Apache-2.0
"""isa/c_machine.py: for which tables there is one, and that it is C without a warning for any of
them. (What it does: runtime/test_c_machine.py.)"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from loadstone.isa.c_machine import compiled_clock, has_c_machine, machine_source, units_in_order
from loadstone.isa.c_meaning import meaning_header
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram
from loadstone.isa.table import InstructionTable
from tests.isa import tokened
from tests.isa.tables import NPU, npu, tables


def compiles(table: InstructionTable, folder: Path) -> None:
    (folder / f"{table.name}_meaning.h").write_text(meaning_header(table))
    file = folder / "machine.c"
    file.write_text(machine_source(table, [form.name for form in table.forms]))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    done = subprocess.run(
        ["gcc", *strict, "-fsyntax-only", f"-I{folder}", file], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_table_by_hand_compiles(tmp_path: Path) -> None:
    compiles(NPU, tmp_path)


def test_any_table_compiles(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("c")

    @settings(max_examples=10, deadline=None)
    @given(tables())
    def check(table: InstructionTable) -> None:
        compiles(table, folder)

    check()


def test_what_is_left_to_python() -> None:
    assert has_c_machine(NPU)
    assert not has_c_machine(tokened.table(tokened.CHAIN, "core"))
    copy, store, work, end = NPU.forms
    assert not has_c_machine(
        replace(NPU, forms=(copy, store, replace(work, per=(("gain", 1),)), end))
    )
    assert compiled_clock(npu(), TableMachine(npu(), Dram([])).state) is None
    assert units_in_order(NPU) == ["dma", "all"]
