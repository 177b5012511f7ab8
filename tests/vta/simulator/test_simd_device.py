# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/simd_device.py: DMA in the shared memory, the interrupt, the faults."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.errors import DeviceError, DeviceHungError
from loadstone.library.native import lib
from loadstone.runtime import device
from loadstone.simulator.programs import program_runs
from loadstone.simulator.simd import SharedMemory
from loadstone.vta.device.cores import cores_of
from loadstone.vta.isa.registers import ERRORS
from loadstone.vta.simulator.simd_device import FAULTS, Fault, SimulatedDevice
from tests.further import branches, expected, inputs
from tests.sample_model import copy_model
from tests.simd_client import (
    ABORT,
    CONFIG,
    CTRL,
    DONE,
    ERROR,
    ERROR_PC,
    FAILED,
    HASH,
    ID,
    INSN_BASE,
    INSN_COUNT,
    IRQ_STATUS,
    RUNNING,
    START,
    STATUS,
    Client,
    X,
    output,
    process,
    run,
    set_up,
)


def test_job_does_dma_in_the_shared_memory_and_raises_the_interrupt(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as client:
        assert client.read32(ID).to_bytes(4, "little") == b"LDS1"
        assert client.read32(HASH) == CONFIG.config_hash
        x = set_up(client)
        assert run(client) == DONE
        np.testing.assert_array_equal(output(client), x + 1)


def test_faults_come_at_their_jobs(tmp_path: Path) -> None:
    faults = [
        "--fault",
        "bus-error@2:3",
        "--fault",
        "hang@1",
        "--fault",
        f"bit-flip@4:{(0x10000000 + X) * 8:#x}",
        "--fault",
        "lost-irq@3",
    ]
    with process(tmp_path, *faults) as (_, path), Client(path) as client:
        x = set_up(client)
        assert run(client) == DONE
        client.write32(CTRL, START)
        assert not client.wait_irq(0.1)
        assert client.read32(STATUS) == RUNNING
        client.write32(CTRL, ABORT)
        assert client.read32(STATUS) == FAILED
        client.write32(IRQ_STATUS, 3)
        assert run(client) == FAILED
        assert (client.read32(ERROR), client.read32(ERROR_PC)) == (ERRORS["BUS"][0], 3)
        client.write32(CTRL, START)
        assert not client.wait_irq(0.1)
        assert client.read32(STATUS) == DONE
        assert run(client) == DONE
        x[0] ^= 1
        np.testing.assert_array_equal(output(client), x + 1)


def test_address_outside_the_memory_is_an_error_of_the_device(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as client:
        set_up(client)
        client.write32(INSN_BASE, 0x20000000)
        assert run(client) == FAILED
        assert client.read32(ERROR) == ERRORS["BUS"][0]


def test_c_runtime_runs_a_model_on_it(tmp_path: Path) -> None:
    x = np.arange(-24, 24, dtype=np.int8).reshape(3, 1, 16)
    with (
        process(tmp_path) as (_, path),
        device.open(f"simd:{path}") as dev,
        dev.load(copy_model()) as session,
    ):
        assert np.array_equal(session.run([x])[0], x)
        assert session.counters.write_bytes == 16


def test_c_runtime_gets_over_its_faults(tmp_path: Path) -> None:
    x = np.ones((1, 1, 16), np.int8)
    faults = [
        "--fault",
        "hang@0:3",
        "--fault",
        "hang-reset@1",
        "--fault",
        "lost-irq@2",
        "--fault",
        "bus-error@3:2",
        "--fault",
        "dead@5",
    ]
    with (
        process(tmp_path, *faults) as (_, path),
        device.open(f"simd:{path}") as dev,
        dev.load(copy_model(), hang_seconds=0.2) as session,
    ):
        for _ in range(2):
            with pytest.raises(DeviceHungError, match="was reset"):
                session.run([x])
        assert np.array_equal(session.run([x])[0], x)
        with pytest.raises(DeviceError, match="instruction 2.*BUS"):
            session.run([x])
        assert np.array_equal(session.run([x])[0], x)
        for _ in range(2):
            with pytest.raises(DeviceHungError, match="does not answer a reset"):
                session.run([x])


def test_c_runtime_sees_at_once_that_the_server_was_killed(tmp_path: Path) -> None:
    x = np.ones((1, 1, 16), np.int8)
    with (
        process(tmp_path) as (child, path),
        device.open(f"simd:{path}") as dev,
        dev.load(copy_model()) as session,
    ):
        session.run([x])
        child.send_signal(signal.SIGKILL)
        child.wait()
        begin = time.monotonic()
        for _ in range(2):
            with pytest.raises(DeviceError, match="no device answers"):
                session.run([x])
        assert time.monotonic() - begin < 1.0


def test_a_device_ends_right_after_a_start() -> None:
    """The worker may not have begun the job, which nobody will begin then."""
    memory = SharedMemory.anonymous(0x10000000, 0x10000)

    def work() -> None:
        for _ in range(200):
            made = SimulatedDevice(CONFIG, memory)
            made.write32(INSN_BASE, 0x10000000)
            made.write32(INSN_COUNT, 1)
            made.write32(CTRL, START)
            made.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "0"], "0 bytes of memory are none"),
        (["--size", str(1 << 63)], "9223372036854775808 bytes of memory are not available"),
        (["--size", str(1 << 64)], "end beyond 64 bits"),
        (["--base", str(1 << 64)], "at bus address 0x10000000000000000 end beyond 64 bits"),
        (["--base", str((1 << 64) - 4096)], "end beyond 64 bits"),
        (
            ["--fault", "bit-flip@0:0"],
            "the bit is not in the memory, bytes 0x10000000 to 0x14000000",
        ),
        (["--fault", f"bit-flip@0:{8 * 0x14000000}"], "the bit is not in the memory"),
        (["--fault", "hang@0:0x100000000"], "argument 4294967296 is not below 2^32"),
        (["--fault", "hang@4294967296"], "job 4294967296 is not below 2^32"),
        (["--fault", "hang@1", "--fault", "bus-error@1"], "both of job 1"),
        (["--fault", "x" * 5000], "is not KIND@JOB"),
    ],
)
def test_what_cannot_be_is_one_line_before_anything_is_served(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    command = [sys.executable, "-m", "loadstone", "simd", str(tmp_path / "s"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message in done.stderr
    assert len(done.stderr) < 400
    assert not (tmp_path / "s").exists()


def test_the_library_refuses_faults_that_cannot_be() -> None:
    made = SimulatedDevice(CONFIG, SharedMemory.anonymous(0x10000000, 0x1000))
    order, first = lib().lds_simdev_fault, 8 * 0x10000000
    refused = [(-1, 0), (11, 0), (1, 1 << 32), (7, first - 1), (7, first + 8 * 0x1000)]
    for kind, argument in refused:
        assert order(made._device, kind, 0, argument) == lib().LDS_SIM_BAD_ARGUMENT
    for kind, argument in [(0, 0), (1, (1 << 32) - 1), (7, first), (7, first + 8 * 0x1000 - 1)]:
        assert order(made._device, kind, 0, argument) == 0
    made.close()


@pytest.mark.parametrize("text", ["hang", "hang@", "hang@x", "melt@1", "hang@1:2:3", "hang@-1"])
def test_fault_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="KIND@JOB"):
        Fault.parse(text)


def test_fault_kinds_are_numbered_as_in_the_header(root: Path) -> None:
    header = (root / "hw_sim/include/lds_simdev.h").read_text()
    for number, kind in enumerate(FAULTS, 1):
        assert f"LDS_FAULT_{kind.upper().replace('-', '_')} = {number}" in header


@pytest.mark.parametrize("bus", ["private", "shared"])
def test_equal_devices_behind_sockets_give_the_cycles_of_those_in_a_process(
    bus: str, tmp_path: Path
) -> None:
    _, beside = cores_of(CONFIG, 2, bus=bus)
    graph, artifact = branches(CONFIG, beside)
    given = inputs(graph)
    with (
        process(tmp_path, "--device", f"vtaq-1x16x16 -count=2 -bus={bus}") as (_, path),
        device.open(f"simd:{path}") as dev,
        dev.load(artifact) as session,
    ):
        for _ in range(3):
            got = session.run([x[None] for x in given])
            for out, want in zip(got, expected(graph, given), strict=True):
                np.testing.assert_array_equal(out[0], want)
            simulated = program_runs(artifact, CONFIG).values()
            assert session.counters.cycles == sum(run.cycles for run in simulated)


@pytest.mark.parametrize(
    "said", ["-count=0", "-count=17", "-count=two", "-count=2 -bus=wide", "-count=2 -clock_mhz=5"]
)
def test_equal_devices_that_are_refused(
    said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simd", str(tmp_path / "s"), "--device", f"vtaq-1x16x16 {said}"]) == 2
    assert "is not NAME -count=N -bus=B with N from 1 to 16" in capsys.readouterr().err
