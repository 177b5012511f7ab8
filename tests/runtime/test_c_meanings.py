# SPDX-License-Identifier: Apache-2.0
"""runtime/c_meanings.py: meanings in C do what those in NumPy do, and stay inside."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from loadstone.errors import ConfigError, DeviceError
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import DRAM_BOUNDS, Dram, DramWindow, MachineFault
from loadstone.runtime.c_meanings import c_meanings
from tests.conftest import ROOT
from tests.isa.tables import NPU, NPU_MEANING, npu
from tests.repeat import times

BASE = 0x1000
COPY = """
#include "npu_meaning.h"
#include <string.h>
void npu_mean_copy(npu_state *state, const npu_copy_fields *i) {
  uint64_t k;
  for (k = 0; k < i->rows; ++k) {
    const uint8_t *from = npu_read(state, i->address + k * i->stride, MORE);
    if (from == NULL) return;
    memcpy(state->pad + (i->row + k) * NPU_PAD_LANES, from, 16);
  }
}
"""


@pytest.fixture(scope="module")
def engine() -> ModuleType:
    path = ROOT / "docs/examples/word_fifo/vector_engine.py"
    spec = importlib.util.spec_from_file_location("vector_engine_of_meanings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def random_program(rng: np.random.Generator) -> list[TableInsn]:
    """Numbers of any size, then loads, sums and stores of any vectors."""
    insns = [
        TableInsn("point", {"pointer": k, "address": BASE + 1024 * int(rng.integers(8))})
        for k in range(4)
    ]
    for number in range(11):
        value = int(rng.integers(-(1 << 31), 1 << 31)) >> int(rng.integers(31))
        if number in (4, 6, 8):
            value = int(rng.integers(-40, 40))
        insns.append(TableInsn("set", {"number": number, "value": value}))
    insns += [
        TableInsn("set", {"number": 9, "value": -int(rng.integers(129))}),
        TableInsn("set", {"number": 10, "value": int(rng.integers(128))}),
    ]
    for _ in range(8):
        size = {"size": int(rng.integers(1024))}
        vector = {"vector": int(rng.integers(8)), "pointer": int(rng.integers(4))}
        names = ("target", "a", "b")
        picked = dict(zip(names, rng.integers(8, size=3).tolist(), strict=True))
        insns += [
            TableInsn("load", {**vector, "chunk": int(rng.integers(8)), **size}),
            TableInsn("add", {**picked, **size}),
            TableInsn("store", {**vector, "chunk": int(rng.integers(8)), **size}),
        ]
    return insns


def test_the_vector_engine_in_c_is_that_in_numpy(engine: ModuleType) -> None:
    plain, native = engine.VectorEngine(), engine.VectorEngine(meaning="c")
    rng = np.random.default_rng(1)
    for _ in range(times(20, 1000)):
        code = b""
        insns = random_program(rng)
        seen = []
        begin = rng.integers(0, 256, 16 * 1024, np.uint8)
        for accelerator in (plain.accelerator, native.accelerator):
            memory = begin.copy()
            machine = TableMachine(accelerator, Dram([DramWindow(BASE, memory)]))
            code = encode(accelerator.table, insns)
            run = machine.run(BASE, len(insns), code)
            held = [array.tobytes() for array in machine.state.memory.values()]
            seen.append((memory.tobytes(), held, run))
        assert seen[0] == seen[1]


def copied(
    tmp_path: Path, source: str, windows: list[DramWindow], **more: int
) -> tuple[TableMachine, bytes]:
    (tmp_path / "npu.c").write_text(source)
    accelerator = npu(meaning={**NPU_MEANING, **c_meanings(NPU, tmp_path / "npu.c")})
    fields = {"address": BASE // 16, "stride": 16, "rows": 2, "row": 3, **more}
    return TableMachine(accelerator, Dram(windows)), encode(NPU, [TableInsn("copy", fields)])


def test_some_meanings_in_c_and_the_others_in_numpy(tmp_path: Path) -> None:
    window = DramWindow(BASE, np.arange(64, dtype=np.uint8), writable=False)
    machine, code = copied(tmp_path, COPY.replace("MORE", "16"), [window])
    run = machine.run(BASE, 1, code)
    assert machine.state.memory["pad"][3:5].ravel().tolist() == list(range(32))
    assert (run.read_bytes, run.write_bytes) == (32, 0)
    machine.use(Dram([replace(window, data=np.full(64, 7, np.uint8))]))
    machine.run(BASE, 1, code)  # another memory is another state
    assert machine.state.memory["pad"][3].tolist() == [7] * 16


def test_an_access_that_no_reach_says_is_a_fault(tmp_path: Path) -> None:
    window = DramWindow(BASE, np.zeros(32, np.uint8))
    machine, code = copied(tmp_path, COPY.replace("MORE", "17"), [window])
    with pytest.raises(MachineFault, match="copy reaches for 0x1010, which it may not") as fault:
        machine.run(BASE, 1, code)
    assert (fault.value.error, fault.value.address) == (DRAM_BOUNDS, 0x1010)
    writes = COPY.replace("MORE", "16").replace("npu_read", "npu_write")
    writes = writes.replace("const uint8_t *from", "uint8_t *from")
    (tmp_path / "w").mkdir()
    machine, code = copied(tmp_path / "w", writes, [replace(window, writable=False)])
    with pytest.raises(MachineFault, match="which it may not"):
        machine.run(BASE, 1, code)


def test_files_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        c_meanings(NPU, tmp_path / "none.c")
    (tmp_path / "npu.c").write_text("int x;")
    with pytest.raises(ConfigError, match="defines none: a function is called like npu_mean_copy"):
        c_meanings(NPU, tmp_path / "npu.c")
    machine, code = copied(tmp_path, COPY, [DramWindow(BASE, np.zeros(64, np.uint8))])
    with pytest.raises(DeviceError, match=r"npu\.c: .* refuses it: .*MORE"):
        machine.run(BASE, 1, code)
    only_named = "/* npu_mean_copy */ int x;"
    machine, code = copied(tmp_path, only_named, [DramWindow(BASE, np.zeros(64, np.uint8))])
    with pytest.raises(DeviceError, match="defines no npu_mean_copy"):
        machine.run(BASE, 1, code)
    monkeypatch.setenv("CC", "no-such-compiler")
    machine, code = copied(tmp_path, COPY, [DramWindow(BASE, np.zeros(64, np.uint8))])
    with pytest.raises(DeviceError, match=r"there is no C compiler \(no-such-compiler\)"):
        machine.run(BASE, 1, code)
