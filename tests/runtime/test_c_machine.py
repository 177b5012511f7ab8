# SPDX-License-Identifier: Apache-2.0
"""runtime/c_machine.py: programs whose meanings are all in C give what the simulator in Python
gives: memory, cycles by unit, faults."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.c_machine import compiled_clock
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import BAD_INSTRUCTION, Dram, DramWindow, MachineFault
from loadstone.runtime.c_meanings import c_meanings
from tests.isa.tables import NPU, NPU_MEANING, random_insns
from tests.repeat import times

#: NPU with times by products, and `work` that touches a part of the memory, so that units overlap.
_COPY, _STORE, _WORK, _END = NPU.forms
TABLE = replace(
    NPU,
    forms=(
        replace(_COPY, per=(("rows*3", Fraction(2, 5)), ("(row+1)", 1))),
        replace(_STORE, unit="out", cycles=3),
        _WORK,
        _END,
    ),
)
C = """
#include "npu_meaning.h"
#include <string.h>
void npu_mean_copy(npu_state *state, const npu_copy_fields *i) {
  uint64_t k;
  for (k = 0; k < i->rows; ++k) {
    const uint8_t *from = npu_read(state, i->address + k * i->stride, 16);
    if (from == NULL) return;
    memcpy(state->pad + (i->row + k) * NPU_PAD_LANES, from, 16);
  }
}
void npu_mean_store(npu_state *state, const npu_store_fields *i) {
  uint8_t *to = npu_write(state, i->address, 16 * i->rows);
  if (to != NULL) memcpy(to, state->pad + i->row * NPU_PAD_LANES, 16 * i->rows);
}
void npu_mean_work(npu_state *state, const npu_work_fields *i) {
  int8_t *at = state->pad;
  for (; at < state->pad + NPU_PAD_ROWS * NPU_PAD_LANES; ++at) *at = (int8_t)(*at + (int)i->mode);
}
void npu_mean_end(npu_state *state, const npu_end_fields *i) { (void)state, (void)i; }
"""
BASE = 0x1000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("c") / "npu.c"
    file.write_text(C)
    return file


def outcome(accelerator: Accelerator, code: bytes, count: int) -> tuple[Any, ...]:
    """All that a program leaves: memories, and the run or how it ended."""
    data = np.random.default_rng(5).integers(0, 256, 6000, np.uint8)
    windows = [
        DramWindow(BASE, data[:3000]),
        DramWindow(BASE + 3000, data[3000:5000], writable=False),
        DramWindow(0x40_0000, data[5000:]),
    ]
    machine, ended = TableMachine(accelerator, Dram(windows)), ()
    try:
        ended = (machine.run(BASE, count, code),)
    except MachineFault as fault:
        ended = (fault.error, str(fault), fault.address, fault.instruction)
    return data.tobytes(), machine.state.memory["pad"].tobytes(), machine.completed > 0, ended


def random_program(rng: np.random.Generator, seed: int) -> list[TableInsn]:
    """Mostly sound instructions, and now and then any."""
    insns = []
    for _ in range(int(rng.integers(1, 24))):
        rows, row = int(rng.integers(1, 6)), int(rng.integers(60))
        address = (BASE + 16 * int(rng.integers(180))) // 16
        stride = int(rng.choice([0, 16, 32, 48]))
        copy = {"address": address, "stride": stride, "rows": rows, "row": row}
        store = {"address": 16 * address, "rows": rows, "row": row}
        insns += [TableInsn("copy", copy), TableInsn("store", store)][:: int(rng.choice([1, -1]))]
        if rng.random() < 0.2:
            insns.append(TableInsn("work", {"mode": int(rng.integers(3))}))
    if rng.random() < 0.5:
        insns += random_insns(TABLE, 2, seed)
    return insns


@pytest.mark.parametrize(
    ("queue", "port"), [(0, None), (0, Port()), (1, Port()), (4, Port(4, 64, 2, 7))]
)
def test_programs_end_as_in_python(source: Path, queue: int, port: Port | None) -> None:
    plain = Accelerator("npu", TABLE, NPU_MEANING, port=port, queue=queue)
    native = replace(plain, meaning=c_meanings(TABLE, source))
    assert compiled_clock(native, TableMachine(native, Dram([])).state) is not None
    rng, ends = np.random.default_rng(queue), []
    for seed in range(times(60, 3000)):
        insns = random_program(rng, seed)
        code = encode(TABLE, insns)
        if rng.random() < 0.2:
            code = code[: int(rng.integers(len(code)))]
        seen = [outcome(one, code, len(insns)) for one in (plain, native)]
        assert seen[0][0] == seen[1][0], seed
        assert seen[0][1:2] + seen[0][3:] == seen[1][1:2] + seen[1][3:], seed
        ends.append(len(seen[0][3]))
    assert 0.2 < np.mean([end > 1 for end in ends]) < 0.9


def test_a_meaning_that_leaves_memory(tmp_path: Path) -> None:
    """Its reach is sound, and what it does is not: the fault names the instruction."""
    file = tmp_path / "npu.c"
    file.write_text(C.replace("k * i->stride, 16)", "k * i->stride + 5000, 16)"))
    native = Accelerator("npu", TABLE, c_meanings(TABLE, file))
    insns = [TableInsn("end", {}), TableInsn("copy", {"address": BASE // 16, "rows": 1})]
    ended = outcome(native, encode(TABLE, insns), 2)[3]
    assert ended[1:] == (f"copy reaches for {BASE + 5000:#x}, which it may not", BASE + 5000, 1)


def test_a_long_program_counts_on_from_where_it_was(source: Path) -> None:
    plain = Accelerator("npu", TABLE, NPU_MEANING, port=Port(), queue=2)
    native = replace(plain, meaning=c_meanings(TABLE, source))
    insns = [TableInsn("copy", {"address": BASE // 16, "rows": 2}), TableInsn("end", {})] * 2100
    code = encode(TABLE, insns)
    assert outcome(plain, code, 4200)[3] == outcome(native, code, 4200)[3]
    bad = code + b"\x63\0\0\0"
    assert outcome(native, bad, 4201)[3][::3] == (BAD_INSTRUCTION, 4200)


def test_a_program_of_long_instructions_stops_soon_after_it_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "npu.c"
    wait = "void npu_mean_end(npu_state *state, const npu_end_fields *i) { usleep(5000);"
    text = C.replace(wait.replace(" usleep(5000);", ""), wait)
    file.write_text(f"#define _DEFAULT_SOURCE\n#include <unistd.h>\n{text}")
    machine = TableMachine(Accelerator("npu", TABLE, c_meanings(TABLE, file)), Dram([]))
    code = encode(TABLE, [TableInsn("end", {})] * 400)
    running = Thread(target=machine.run, args=(BASE, 400, code))
    running.start()
    while not machine.completed:
        pass
    machine.aborted = True
    running.join()
    assert machine.completed < 400
