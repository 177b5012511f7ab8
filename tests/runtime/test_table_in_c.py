# SPDX-License-Identifier: Apache-2.0
"""runtime/table_in_c.py: the C library is given the table that isa/c_table.py prints.
(What the library does with it: tests/isa/test_program_check.py.)"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.isa.c_table import c_table
from loadstone.isa.table import InstructionTable
from loadstone.library.native import ffi
from loadstone.runtime.table_in_c import table_in_c
from tests.conftest import ROOT
from tests.isa import gather
from tests.isa.tables import NPU

PRINTER = """
#include "table.c"
#include <stdio.h>
static void number(unsigned value) { printf("%u ", value); }
static void end(void) { printf("\\n"); }
static void term(lds_insn_term t) { number(t.value), number(t.summands), end(); }

static void reach(const lds_insn_reach *r) {
  int k;
  number(r->memory), number(r->writes), number(r->loops), number(r->bank), number(r->bank_size);
  number(r->words), number(r->word_bit), number(r->word_width), end();
  term(r->first), term(r->offset), term(r->extent), term(r->word_begin), term(r->word_end);
  for (k = 0; k < LDS_INSN_LOOPS; ++k) term(r->count[k]), term(r->stride[k]);
}

static void form(const lds_insn_form *f) {
  int k;
  number(f->opcode), number(f->size_bytes), number(f->field_count), number(f->reach_count);
  number(f->keep_count), number(f->never_count), number(f->ends), end();
  for (k = 0; k < f->reach_count; ++k) reach(&f->reaches[k]);
  for (k = 0; k < f->never_count; ++k) term(f->never[k]);
}

int main(void) {
  const lds_insn_table *t = &NAME_table;
  uint32_t k;
  number(t->opcode_bits), number(t->form_count), number(t->memory_count);
  number(t->region_bank), number(t->region_count), end();
  for (k = 0; k < t->memory_count; ++k) number(t->memory_rows[k]), number(t->word_bytes[k]), end();
  for (k = 0; k < t->form_count; ++k) form(&t->forms[k]);
  return 0;
}
"""


def lines(table: Any) -> Iterator[tuple[int, ...]]:
    """The same of a table in memory."""

    def term(one: Any) -> tuple[int, ...]:
        return one.value, one.summands

    t = table
    yield t.opcode_bits, t.form_count, t.memory_count, t.region_bank, t.region_count
    for k in range(t.memory_count):
        yield t.memory_rows[k], t.word_bytes[k]
    for o in (t.forms[k] for k in range(t.form_count)):
        counts = o.field_count, o.reach_count, o.keep_count, o.never_count
        yield o.opcode, o.size_bytes, *counts, o.ends
        for r in (o.reaches[k] for k in range(o.reach_count)):
            words = r.words, r.word_bit, r.word_width
            yield r.memory, r.writes, r.loops, r.bank, r.bank_size, *words
            yield from map(term, (r.first, r.offset, r.extent, r.word_begin, r.word_end))
            for loop in range(3):
                yield term(r.count[loop])
                yield term(r.stride[loop])
        for k in range(o.never_count):
            yield term(o.never[k])


@pytest.mark.parametrize(
    "table", [NPU, gather.table(), gather.table(tokens=True)], ids=["npu", "gather", "tokens"]
)
def test_it_is_the_table_that_a_compiler_reads(table: InstructionTable, tmp_path: Path) -> None:
    (tmp_path / "table.c").write_text(c_table(table))
    (tmp_path / "print.c").write_text(PRINTER.replace("NAME", table.name))
    includes = [f"-I{ROOT}/runtime/include", f"-I{tmp_path}"]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    command = ["gcc", *strict, *includes, tmp_path / "print.c", "-o", tmp_path / "print"]
    subprocess.run(command, check=True)
    out = subprocess.run([tmp_path / "print"], capture_output=True, check=True, text=True).stdout
    keep: list[object] = []
    made = table_in_c(table, keep)
    assert [tuple(map(int, line.split())) for line in out.splitlines()] == list(lines(made))
    assert ffi.string(made.name).decode() == table.name
    assert bytes(made.fingerprint) == table.fingerprint
