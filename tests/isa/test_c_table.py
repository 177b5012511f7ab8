# SPDX-License-Identifier: Apache-2.0
"""The C of an instruction set, as gcc reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from loadstone.isa.c_table import c_header, c_table
from loadstone.isa.codec import encode
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    Reach,
)
from tests.conftest import ROOT
from tests.isa.tables import NPU, random_insns
from tests.repeat import times

WARNINGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion"]
#: Fields of every width, with sign and without, at every place in a byte.
EVERY = InstructionTable(
    "every",
    tuple(
        InstructionForm(
            f"w{width}",
            width,
            (Bits("shift", shift), Bits("plain", width), Bits("signed_one", width, signed=True)),
        )
        for width, shift in ((k, k % 9 + 1) for k in range(1, 65))
    ),
)


def reader(table: InstructionTable) -> str:
    """Reads a program from stdin; prints the fields, and whether writing them gives the bytes."""
    cases = []
    for form in table.forms:
        what = f"{table.name}_{form.name}"
        big = what.upper()
        body = [f"case {big}:", f"size = {big}_BYTES; take(insn + 4, size - 4); "]
        for field in form.fields:
            kind, cast = ("PRId64", "") if field.signed else ("PRIu64", "")
            body.append(f'printf("%" {kind} " ", {cast}{what}_{field.name}(insn));')
            body.append(f"set_{what}_{field.name}(again, {what}_{field.name}(insn));")
        cases.append("\n".join([*body, "break;"]))
    return f"""#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "table.h"
static int take(uint8_t *to, size_t bytes) {{ return fread(to, 1, bytes, stdin) == bytes; }}
int main(void) {{
  uint8_t insn[64], again[64];
  while (take(insn, 4)) {{
    size_t size = 0;
    memset(again, 0, sizeof again);
    again[0] = insn[0];
    switch (insn[0]) {{ {chr(10).join(cases)} default: return 1; }}
    printf("%d\\n", memcmp(insn, again, size));
  }}
  return 0;
}}
"""


@pytest.mark.parametrize("table", [NPU, EVERY], ids=["npu", "every"])
def test_gcc_reads_the_header(table: InstructionTable, tmp_path: Path) -> None:
    (tmp_path / "table.h").write_text(c_header(table))
    (tmp_path / "reader.c").write_text(reader(table))
    subprocess.run(["gcc", *WARNINGS, "-o", "reader", "reader.c"], cwd=tmp_path, check=True)
    insns = random_insns(table, times(5000, 100_000), 7)
    out = subprocess.run(
        [tmp_path / "reader"], input=encode(table, insns), capture_output=True, check=True
    ).stdout.decode()
    wanted = [" ".join([*map(str, insn.fields.values()), "0"]) for insn in insns]
    assert out.splitlines() == wanted


def test_the_table_compiles(tmp_path: Path) -> None:
    includes = [f"-I{ROOT}/runtime/include", f"-I{ROOT}/driver/include"]
    for table in (NPU, EVERY):
        (tmp_path / "table.c").write_text(c_table(table))
        subprocess.run(["gcc", *WARNINGS, *includes, "-c", "table.c"], cwd=tmp_path, check=True)


def test_the_table_says_products_and_address_registers(tmp_path: Path) -> None:
    """What the compiler reads is what the validator is given in this process."""
    address, size = Bits("address", 32, address=True), Bits("size", 8)
    far = Reach("dram", "base", offset="size*16", extent="(size+1)", index="which")
    forms = (
        InstructionForm("point", 1, (Bits("which", 2), address), keeps=(Keep("base", "address"),)),
        InstructionForm("load", 2, (Bits("which", 2), size), reaches=(far,)),
    )
    table = InstructionTable("kept", forms, address_registers=(AddressRegister("base", 4),))
    text = c_table(table)
    summands = ("{1u, 0u, 1u}", "{255u, 0u, 1u}", "{1u, 0u, 0u}", "{255u, 0u, 16u}")
    lines = "".join(f"    {one},\n" for one in summands)  # (size+1)*1, size*16
    assert "load_summands[] = {\n" + lines in text
    assert "point_keeps[] = {\n    {1u, 4u, 1u, {0u, 0u}},\n" in text
    assert "{0u, 0u, 0u, 1u, 4u, 0u, 0u, 0u, {0u, 1u}, {2u, 2u}, {0u, 2u}," in text
    (tmp_path / "table.c").write_text(text)
    includes = [f"-I{ROOT}/runtime/include", f"-I{ROOT}/driver/include"]
    subprocess.run(["gcc", *WARNINGS, *includes, "-c", "table.c"], cwd=tmp_path, check=True)
