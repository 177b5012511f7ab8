# SPDX-License-Identifier: Apache-2.0
"""Programs of another accelerator in the C runtime: run on its simulator, and refused."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.file_layout import HEADER, SECTIONS
from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.errors import ArtifactError, ConfigError, DeviceError, LoadstoneError
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import Accelerator, register_accelerator
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.native_page import NativePage
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.runtime.session import Session
from tests import further
from tests.artifact.test_program_step import CODE, RELOCATIONS, program_model, with_second
from tests.artifact.test_reader import sealed
from tests.branches import branches
from tests.conftest import ROOT
from tests.isa.tables import NPU, NPU_MEANING, npu
from tests.repeat import more
from tests.simd_client import process

DRIVER = """#include "lds_accelerator.h"
int npu_refuse(const lds_insn_seen *seen);
int npu_refuse(const lds_insn_seen *seen) {
  return seen->form->opcode == 1u && seen->value[2] == 4u;
}
"""


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Accelerator], None]:
    """Makes an accelerator known for one test."""
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    return lambda made: register_accelerator("npu", lambda _: made)


def run(model: Artifact, **more: Any) -> tuple[np.ndarray, Any]:
    with device.open("sim", **more) as opened, opened.load(model) as session:
        session.inputs[0][...] = np.arange(64, dtype=np.int8)
        session.execute()
        return session.outputs[0].copy(), session.counters


@pytest.mark.parametrize("shadow", [False, True])
def test_runs(offered: Callable[[Accelerator], None], shadow: bool) -> None:
    offered(npu())
    y, counters = run(program_model(), shadow=shadow)
    np.testing.assert_array_equal(y[0], np.arange(64))
    assert (counters.cycles, counters.read_bytes, counters.write_bytes) == (1 + 8 + 1 + 1, 64, 64)


def test_unknown_and_other_accelerators(offered: Callable[[Accelerator], None]) -> None:
    with pytest.raises(ConfigError, match="'npu', which no plug-in describes"):
        run(program_model())
    first = replace(NPU.forms[0], opcode=9)
    other = replace(NPU, forms=(first, *NPU.forms[1:]))
    offered(Accelerator("npu", other, NPU_MEANING))
    with pytest.raises(ConfigError, match="compile the model again"):
        run(program_model())


def code(*changes: Mapping[str, int]) -> bytes:
    named = zip(("copy", "store", "end"), changes, strict=False)
    plain = {"copy": {"stride": 16, "rows": 4}, "store": {"rows": 4}, "end": {}}
    insns = {name: TableInsn(name, {**plain[name], **change}) for name, change in named}
    return encode(NPU, [insns.get(name, TableInsn(name, plain[name])) for name in plain])


R = RELOCATIONS
REFUSED = {
    "leaves the region behind": (code({"stride": 65}), R, "leaves its DRAM region"),
    "begins too late": (CODE, (replace(R[0], addend_bytes=208), R[1]), "leaves its DRAM region"),
    "stores behind": (CODE, (R[0], replace(R[1], addend_bytes=193)), "leaves its DRAM region"),
    "no relocation": (CODE, R[:1], "leaves its DRAM region"),
    "an address of its own": (code({"address": 1}), R[1:], "leaves its DRAM region"),
    "address and relocation": (code({"address": 1}), R, "does not know"),
    "relocation of no address": (CODE, (replace(R[0], bit=48, width=16), R[1]), "does not know"),
    "another width": (CODE, (replace(R[0], width=32), R[1]), "does not know"),
    "another shift": (CODE, (replace(R[0], shift=0), R[1]), "does not know"),
    "inside an instruction": (
        CODE,
        (replace(R[0], offset_bytes=4), R[1]),
        "leaves its DRAM region",
    ),
    "local memory": (code({"row": 61}), R, "leaves a scratchpad"),
    "opcode": (b"\x03" + CODE[1:], R, "does not know"),
    "reserved bit": (CODE[:-1] + b"\x80", R, "does not know"),
    "cut": (CODE[:-4] + b"\x02\0\0\0", R, "does not know"),
    "count": (CODE[:-4], R, "does not know"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(offered: Callable[[Accelerator], None], name: str) -> None:
    offered(npu())
    bytes_of, relocations, said = REFUSED[name]
    with pytest.raises(ArtifactError, match=said):
        run(program_model(bytes_of, relocations))


def test_rights_of_regions(offered: Callable[[Accelerator], None]) -> None:
    offered(npu())
    model = program_model()
    arena = replace(model.regions[0], device_writes=False)
    with pytest.raises(ArtifactError, match="stores where it may not"):
        run(replace(model, regions=(arena,)))


@pytest.mark.parametrize(("word", "value"), [(7, 8 | 65 << 16), (8, 17), (9, 1), (10, 257)])
def test_relocations_are_checked_when_a_session_opens(
    offered: Callable[[Accelerator], None], word: int, value: int
) -> None:
    """Width, shift, region, addend of the first: the reader in C leaves them to the session, which
    knows that there is a table."""
    offered(npu())
    model = program_model()
    data = bytearray(model.to_bytes())
    (words,) = struct.unpack_from("<I", data, HEADER.size + 8 * SECTIONS.index("words"))
    struct.pack_into("<I", data, words + 4 * word, value)
    with device.open("sim") as dev:
        dev.load(model).close()  # as it was
        with pytest.raises(ArtifactError, match=r"a rule of FORMAT\.md"):
            Session(dev.device, dev.handle(model), model, sealed(data), None, trust=False)


def test_an_address_that_does_not_fit(offered: Callable[[Accelerator], None]) -> None:
    offered(npu())
    with pytest.raises(DeviceError, match="misaligned"):
        run(program_model(CODE, (replace(R[0], addend_bytes=72), R[1])))


def test_the_refused_instruction_is_named(offered: Callable[[Accelerator], None]) -> None:
    offered(npu())
    with pytest.raises(ArtifactError, match=r"step 'run', instruction 1 \(layer 'layer'\)"):
        run(program_model(CODE, (R[0], replace(R[1], addend_bytes=193))))


def test_c_of_the_plugin_refuses(offered: Callable[[Accelerator], None], tmp_path: Path) -> None:
    driver = tmp_path / "npu.c"
    driver.write_text(DRIVER)
    offered(npu(driver=driver))
    with pytest.raises(ArtifactError, match="does not know"):
        run(program_model())
    wrong = tmp_path / "wrong.c"
    wrong.write_text("int npu_refuse(const lds_insn_seen *seen) { return 0 }")
    offered(npu(driver=wrong))
    with pytest.raises(DeviceError, match=r"wrong.c: .*error"):
        run(program_model())


def test_c_that_defines_other_names(offered: Callable[[Accelerator], None], tmp_path: Path) -> None:
    """Else the native registers are looked for, and the device is called another one."""
    driver = tmp_path / "npu.c"
    driver.write_text("int dla_refuse(const lds_insn_seen *seen) { return 0; }")
    offered(npu(driver=driver))
    with pytest.raises(DeviceError, match="npu.c does not define npu_registers nor npu_refuse"):
        run(program_model())
    driver.write_text(DRIVER)
    offered(npu(driver=driver, page=NativePage))
    with pytest.raises(DeviceError, match="npu.c does not define npu_registers: .* table, 'npu'"):
        run(program_model())
    driver.write_text(
        '#include "lds_hal.h"\nconst lds_register_block npu_registers = {"npu", 0, 0};\n'
    )
    with pytest.raises(DeviceError, match="npu.c: npu_registers has no function 'identify'"):
        run(program_model())


def test_a_register_block_that_does_not_find_its_device_is_named(
    offered: Callable[[Accelerator], None],
) -> None:
    class Other(NativePage):
        def __init__(self, config_hash: int) -> None:
            super().__init__(config_hash ^ 1)

    offered(npu(page=Other))
    with pytest.raises(DeviceError, match="accelerator npu: identify does not find it"):
        run(program_model())


def test_a_model_without_programs_may_be_the_first(offered: Callable[[Accelerator], None]) -> None:
    """No simulator is needed for it, but for the next: `loadstone compare` runs a part of a model
    that ends before its first program, and then more."""
    offered(npu())
    model = program_model()
    with device.open("sim") as opened:
        first = opened.load(replace(model, steps=()))
        with opened.load(model) as session:
            first.execute()
            session.inputs[0][...] = np.arange(64, dtype=np.int8)
            session.execute()
            np.testing.assert_array_equal(session.outputs[0][0], np.arange(64))
        opened.load(replace(model, steps=())).execute()


def test_an_error_of_a_meaning_reaches_the_caller(offered: Callable[[Accelerator], None]) -> None:
    def broken(state: Any, i: Any) -> None:
        raise LoadstoneError("a meaning that fails")

    offered(Accelerator("npu", NPU, {**NPU_MEANING, "store": broken}))
    with pytest.raises(LoadstoneError, match="a meaning that fails"):
        run(program_model())


def test_a_fault_of_the_device_is_named(offered: Callable[[Accelerator], None]) -> None:
    """A device that reaches further than its table says, stopped by its own bounds."""

    def far(state: Any, i: Any) -> None:
        state.dram.read(0, 1)

    offered(Accelerator("npu", NPU, {**NPU_MEANING, "store": far}))
    with pytest.raises(DeviceError, match=r"instruction 1 .*error 2 of npu: an access outside"):
        run(program_model())


def test_other_connections_have_one_device(offered: Callable[[Accelerator], None]) -> None:
    offered(npu())
    register_accelerator("npu2", lambda _: npu())
    model = with_second(program_model(), device=2)
    model = replace(model, devices=(*model.devices, replace(model.devices[1], name="npu2")))
    with (
        device.open("null") as opened,
        pytest.raises(DeviceError, match="several devices"),
    ):
        opened.load(model)
    with device.open("null") as opened:  # a device without programs is not looked for
        opened.load(replace(model, steps=())).close()


# --- at once --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, np.ndarray, list[np.ndarray]]:
    """VTA-Q and the systolic array of the examples, between whose programs no data flows."""
    artifact, inputs, outputs = branches(tmp_path_factory.mktemp("branches"))
    assert artifact.programs
    (other,) = artifact.programs_of(1)
    assert (artifact.device_of(other).name, other.beside) == ("systolic", True)
    return artifact, inputs, outputs


def same(session: Any, inputs: np.ndarray, outputs: list[np.ndarray]) -> None:
    for got, want in zip(session.run([inputs]), outputs, strict=True):
        np.testing.assert_array_equal(got.reshape(want.shape), want)


def state_of(lds_device: Any) -> int:
    state = ffi.new("lds_device_state *")
    lds_device.registers.state(lds_device.hal, state)
    return int(state.state)


RUNNING, DONE = 2, 3


def test_vta_and_an_accelerator_of_a_plugin_work_at_once(
    two: tuple[Artifact, np.ndarray, list[np.ndarray]],
) -> None:
    """The plug-in's program is done while VTA's, which was started before it, still runs."""
    artifact, inputs, outputs = two
    with device.open("sim") as opened:
        with opened.load(artifact) as session:
            same(session, inputs, outputs)
        simulated = lib().lds_hal_sim_device(opened.sim)
        assert lib().lds_simdev_fault(simulated, lib().LDS_FAULT_HANG, 0, 1) == lib().LDS_SIM_OK
        with opened.load(artifact) as session:
            session.start()
            assert session.accelerators is not None
            assert state_of(session.accelerators.table[0].device) == DONE
            assert state_of(opened.handle().device) == RUNNING
        with opened.load(artifact) as session:
            same(session, inputs, outputs)


def check_process(
    tmp_path: Path,
    artifact: Artifact,
    inputs: np.ndarray,
    outputs: list[np.ndarray],
    *options: str,
) -> None:
    """`loadstone simd` with both devices of a model: one memory, a socket for each; the first hangs
    in its second job."""
    names = ("--device", "vtaq-1x16x16", "--device", artifact.devices[1].name)
    with (
        process(tmp_path, *names, "--fault", "hang@1", *options) as (_, socket),
        device.open(f"simd:{socket}") as opened,
    ):
        with opened.load(artifact) as session:
            same(session, inputs[:1], [y[:1] for y in outputs])
        with opened.load(artifact) as session:
            session.start()
            assert session.accelerators is not None
            accelerator, until = session.accelerators.table[0].device, time.monotonic() + 60
            while state_of(accelerator) == RUNNING and time.monotonic() < until:
                time.sleep(0.01)
            assert state_of(accelerator) == DONE
            assert state_of(opened.handle().device) == RUNNING
        with opened.load(artifact) as session:
            same(session, inputs, outputs)


def test_two_vtas_of_one_simulator_process_work_at_once(tmp_path: Path) -> None:
    graph, artifact = further.branches()
    inputs = np.stack(further.inputs(graph))
    check_process(tmp_path, artifact, inputs, further.expected(graph, list(inputs)))


@pytest.mark.parametrize("number", [0, 1])
def test_the_device_that_fails_is_named_and_the_next_run_is_exact(
    number: int, tmp_path: Path
) -> None:
    """In a run, and where it cannot be made ready for one."""
    graph, artifact = further.branches()
    inputs = np.stack(further.inputs(graph))[:1]
    outputs = [y[:1] for y in further.expected(graph, list(inputs))]
    names = [one.name for one in artifact.devices]
    words = [word for name in names for word in ("--device", name)]
    for fault in ("bus-error@1", "hang@3", "dead@5"):
        words += ["--fault", f"{names[number]}:{fault}"]
    named = f"device '{names[number]}'"
    with (
        process(tmp_path, *words) as (_, socket),
        device.open(f"simd:{socket}") as opened,
        opened.load(artifact, hang_seconds=1.0) as session,
    ):
        for status in ("stopped with an error", "was reset", "does not answer a reset"):
            same(session, inputs, outputs)
            with pytest.raises(DeviceError, match=status) as raised:
                same(session, inputs, outputs)
            assert named in str(raised.value)
        with pytest.raises(DeviceError, match="does not answer a reset") as raised:
            same(session, inputs, outputs)
        assert named in str(raised.value)


def test_a_fault_of_a_device_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simd", str(tmp_path / "s"), "--device", "vtaq-1x16x16 -count=2"]
    assert main([*words, "--fault", "vtaq-1x16x16.2:hang@1"]) == 2
    assert "there is no device vtaq-1x16x16.2: name one of vtaq-1x16x16, vtaq-1x16x16.1" in (
        capsys.readouterr().err
    )


@more
def test_vta_and_an_accelerator_of_one_simulator_process_work_at_once(
    two: tuple[Artifact, np.ndarray, list[np.ndarray]], tmp_path: Path
) -> None:
    folder = str(ROOT / "docs/examples/systolic")
    check_process(tmp_path, *two, "--uma-backends", folder)


def test_a_simulator_process_without_the_second_device_is_one_line(
    two: tuple[Artifact, np.ndarray, list[np.ndarray]], tmp_path: Path
) -> None:
    with (
        process(tmp_path) as (_, socket),
        device.open(f"simd:{socket}") as opened,
        pytest.raises(DeviceError, match="--device vtaq-1x16x16 --device systolic`"),
    ):
        opened.load(two[0])
