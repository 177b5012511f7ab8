# SPDX-License-Identifier: Apache-2.0
"""simulator/table_vectors.py: vectors of a plug-in's instructions, written, read, replayed, and
found wrong where they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import LoadstoneError, SimulationError
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import Port, register_accelerator
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.program_tokens import with_tokens
from loadstone.isa.state import MachineState
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    Reach,
)
from loadstone.simulator.table_vectors import (
    TableVector,
    VectorProgram,
    is_table_folder,
    load_table_vectors,
    measure_table,
    replay_table,
    save_table_vectors,
    table_programs,
    written_spans,
)
from loadstone.simulator.vector_files import DramRegion
from tests.artifact.test_program_step import program_model
from tests.isa import tokened
from tests.isa.tables import NPU, NPU_MEANING, npu

DEVICE = npu(port=Port(latency_cycles=10))


def _program(*insns: TableInsn, size: int = 512, **more: object) -> VectorProgram:
    code = np.frombuffer(encode(NPU, list(insns)), np.uint8)
    image = np.arange(size, dtype=np.int64).astype(np.uint8)
    return replace(VectorProgram("copy", DEVICE, code, 0x1000, image), **more)  # type: ignore[arg-type]


COPY = (
    TableInsn("copy", {"address": 0x100, "stride": 32, "rows": 4}),
    TableInsn("store", {"address": 0x10A0, "rows": 4}),
)


def test_a_vector_holds_what_the_program_does_and_takes() -> None:
    vector = measure_table(_program(*COPY))
    assert vector.out_regions.tolist() == [[0xA0, 64]]
    assert vector.out.tolist() == [n for k in range(4) for n in range(32 * k, 32 * k + 16)]
    assert vector.moved == (64, 64)
    # a transfer of each instruction waits 64 cycles more; both stand in one unit
    assert vector.cycles[64] - vector.cycles[0] == 2 * 64


def test_what_is_written_is_read_and_replayed(tmp_path: Path) -> None:
    regions = (DramRegion(0x1000, 0xA0, read_only=True), DramRegion(0x10A0, 0x160))
    wrote = measure_table(_program(*COPY, regions=regions, group="g", description="two"))
    assert save_table_vectors(tmp_path, [wrote]) == [2]
    assert is_table_folder(tmp_path)
    (read,) = load_table_vectors(tmp_path, lambda _: DEVICE)
    for name in ("code", "dram_in"):
        np.testing.assert_array_equal(getattr(read.program, name), getattr(wrote.program, name))
    assert read.program.regions == regions
    assert (read.program.group, read.program.description) == ("g", "two")
    assert (read.cycles, read.moved) == (wrote.cycles, wrote.moved)
    replayed = replay_table(read)
    assert replayed.exact, replayed.message
    assert replayed.errors() == {0: 0.0, 64: 0.0}
    data = np.load(tmp_path / "copy.npz")
    assert data["insn_offsets"].tolist() == [0, 12]
    assert int(data["code_base"]) == 0x2000


def test_a_vector_of_another_memory_is_wrong_by_name() -> None:
    vector = measure_table(_program(*COPY))
    spoiled = replace(vector, out=vector.out ^ np.eye(1, 64, 5, np.uint8)[0])
    replayed = replay_table(spoiled)
    assert not replayed.exact
    assert replayed.message.startswith("1 bytes differ, the first at 0x10a5: 5 instead of 4")


def test_a_program_that_stops_is_named() -> None:
    beyond = _program(TableInsn("store", {"address": 0x1200, "rows": 1}))
    with pytest.raises(SimulationError, match="copy, instruction 0: an access outside the memory"):
        measure_table(beyond)
    vector = TableVector(beyond, np.zeros((0, 2), np.int64), np.zeros(0, np.uint8), {}, (0, 0))
    assert "instruction 0" in replay_table(vector).message
    protected = (DramRegion(0x1000, 512, read_only=True),)
    with pytest.raises(SimulationError, match="cannot be written"):
        measure_table(_program(*COPY, regions=protected))


def test_a_meaning_that_writes_more_than_it_says_is_named() -> None:
    def more(state: MachineState, i: Mapping[str, int]) -> None:
        NPU_MEANING["store"](state, i)
        state.dram.write(i["address"] + 100, np.full(4, 77, np.uint8))

    device = npu(meaning={**NPU_MEANING, "store": more})
    with pytest.raises(
        SimulationError, match="memory at 0x1104 changes, and no instruction of npu"
    ):
        measure_table(_program(*COPY, accelerator=device))


def test_gaps_between_rows_are_not_written_and_pointers_are_followed() -> None:
    fields = (Bits("pointer", 2), Bits("rows", 8))
    far = Reach("dram", "base", (("rows", 32),), 4, writes=True, offset=64, index="pointer")
    point = InstructionForm(
        "point",
        1,
        (Bits("pointer", 2), Bits("address", 32, address=True, shift=4)),
        keeps=(Keep("base", "address", "pointer"),),
    )
    forms = (point, InstructionForm("spread", 2, fields, reaches=(far,)))
    table = InstructionTable("t", forms, address_registers=(AddressRegister("base", 4),))
    insns = [
        TableInsn("point", {"pointer": 1, "address": 0x10}),
        TableInsn("spread", {"pointer": 1, "rows": 3}),
        TableInsn("spread", {"pointer": 1, "rows": 0}),
    ]
    assert written_spans(table, encode(table, insns)).tolist() == [
        [0x140, 4],
        [0x160, 4],
        [0x180, 4],
    ]


def test_programs_of_an_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: DEVICE)
    (program,) = table_programs(program_model(), DEVICE, seed=3)
    vector = measure_table(program)
    at = vector.out_regions[0, 0]
    np.testing.assert_array_equal(vector.out, program.dram_in[at - 64 : at])
    (other,) = table_programs(program_model(), DEVICE, seed=4)
    assert (other.dram_in != program.dram_in).any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"out_regions": [[500, 64]]}, "a region leaves its image"),
        ({"out": [1, 2]}, "out has 2 bytes, out_regions 64"),
        ({"code": None}, "has no array 'code'"),
    ],
)
def test_a_file_that_is_no_vector(tmp_path: Path, change: dict[str, object], said: str) -> None:
    save_table_vectors(tmp_path, [measure_table(_program(*COPY))])
    arrays = {**np.load(tmp_path / "copy.npz"), **change}
    np.savez(tmp_path / "copy.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(LoadstoneError, match=said):
        load_table_vectors(tmp_path, lambda _: DEVICE)


def test_vectors_of_other_instructions_are_refused(tmp_path: Path) -> None:
    save_table_vectors(tmp_path, [measure_table(_program(*COPY))])
    index = json.loads((tmp_path / "index.json").read_text())
    index["device"]["fingerprint"] = "00" * 32
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(LoadstoneError, match="other instructions of npu"):
        load_table_vectors(tmp_path, lambda _: DEVICE)


def test_a_race_is_found_though_memory_is_right() -> None:
    device = tokened.device(tokened.CHAIN, "core")
    insns = tokened.random_program(3, 30)
    made = [insn for insn, _ in with_tokens(device.table, insns, tokened.no_names)]
    code = np.frombuffer(encode(device.table, made), np.uint8)
    good = VectorProgram("p", device, code, tokened.BASE, np.zeros(256, np.uint8))
    assert replay_table(measure_table(good), races=True).findings == 0
    bare = [replace(i, fields={k: v for k, v in i.fields.items() if "p" not in k}) for i in made]
    bare = [insn for insn in bare if not insn.name.startswith("wait")]
    code = np.frombuffer(encode(device.table, bare), np.uint8)
    replayed = replay_table(measure_table(replace(good, code=code)), races=True)
    assert (replayed.exact, replayed.findings) == (True, 1)  # it is what this program does
    assert "is not ordered after" in replayed.message
