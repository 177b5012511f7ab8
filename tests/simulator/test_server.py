"""The simulator as a process: the protocol from both ends, DMA in the shared file, the interrupt,
the faults."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import DeviceError, DeviceHungError
from loadstone.runtime import device
from loadstone.simulator.server import FAULTS, PROTOCOL_VERSION, Fault
from loadstone.vta.hw_config import load_config
from loadstone.vta.isa.codec import Alu, Finish, Load, Store, encode_stream, encode_uops
from loadstone.vta.isa.registers import ERRORS
from loadstone.vta.isa.spec import AluOp, Memory
from tests.sample_model import copy_model

HELLO, READ, WRITE, IRQ = range(4)
CONFIG = load_config("vtaq-1x16x16")
ID, HASH, CTRL, STATUS, IRQ_STATUS, IRQ_MASK, ERROR, ERROR_PC = (
    0x00,
    0x08,
    0x10,
    0x14,
    0x18,
    0x1C,
    0x20,
    0x24,
)
INSN_BASE, INSN_COUNT, REGION_BASE, REGION_LIMIT = 0x30, 0x38, 0x40, 0x80
START, ABORT = 1, 4
IDLE, RUNNING, DONE, FAILED = 1, 2, 3, 4
X, Y, UOP, STREAM = 0x1000, 0x2000, 0x3000, 0x4000  # offsets in the memory


class Client:
    """The other end of the socket, packet by packet: registers, the interrupt, and the memory as
    `memory`."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(10.0)
        self._socket.connect(str(path))
        self._socket.send(struct.pack("<4I", HELLO, 0, PROTOCOL_VERSION, 0))
        text, fds, _, _ = socket.recv_fds(self._socket, 100, 1)
        _, _, version, self.irq_level, self.page_bytes, _, self.base, size = struct.unpack(
            "<4I2I2Q", text
        )
        assert version == PROTOCOL_VERSION
        self.memory = mmap.mmap(fds[0], size)
        os.close(fds[0])
        self._sequence = 0

    def read32(self, offset: int) -> int:
        return self._call(READ, offset, 0)

    def write32(self, offset: int, value: int) -> None:
        self._call(WRITE, offset, value)

    def wait_irq(self, timeout_s: float) -> bool:
        """Whether the interrupt line goes high within the time."""
        deadline = time.monotonic() + timeout_s
        while not self.irq_level:
            if not select.select([self._socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
            assert self._receive()[0] == IRQ
        return True

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def _call(self, kind: int, offset: int, value: int) -> int:
        self._sequence += 1
        self._socket.send(struct.pack("<4I", kind, self._sequence, offset, value))
        while (answer := self._receive())[0] == IRQ:
            pass
        assert answer[:2] == (kind, self._sequence)
        return answer[2]

    def _receive(self) -> tuple[int, int, int]:
        kind, sequence, value, self.irq_level = struct.unpack("<4I", self._socket.recv(100))
        return kind, sequence, value


@contextlib.contextmanager
def process(tmp_path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """`loadstone simd` on a socket of its own, ready to be connected to."""
    path = tmp_path / "simd.sock"
    command = [sys.executable, "-m", "loadstone", "simd", str(path), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            line = child.stdout.readline()
            assert line.startswith("vtaq-1x16x16 at "), line + child.stderr.read()
            yield child, path
        finally:
            child.kill()


def set_up(client: Client) -> np.ndarray:
    """Puts a program that copies 16 int8, and adds 1, into the memory. Returns x; y is at Y."""
    base = client.base
    program = [
        Load(memory_id=Memory.UOP, region=0, y_size=1, x_size=1, x_stride=1),
        Load(memory_id=Memory.ACC_8BIT, region=1, y_size=1, x_size=1, x_stride=1),
        Alu(
            uop_bgn=0,
            uop_end=1,
            iter_out=1,
            iter_in=1,
            alu_op=AluOp.ADD,
            use_imm=1,
            imm=1,
            push_next=1,
        ),
        Store(
            memory_id=Memory.OUT, region=2, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1
        ),
        Finish(pop_next=1),
    ]
    x = np.arange(-8, 8, dtype=np.int8)
    memory = client.memory
    memory[X : X + 16] = x.tobytes()
    uops = encode_uops(np.zeros((1, 3), np.int64), CONFIG).tobytes()
    memory[UOP : UOP + len(uops)] = uops
    stream = encode_stream(program, CONFIG).tobytes()
    memory[STREAM : STREAM + len(stream)] = stream
    for region, (offset, read_only) in enumerate([(UOP, 1), (X, 1), (Y, 0)]):
        client.write32(REGION_BASE + 8 * region, base + offset)
        client.write32(REGION_LIMIT + 8 * region, 64)
        client.write32(REGION_LIMIT + 8 * region + 4, read_only << 31)
    client.write32(INSN_BASE, base + STREAM)
    client.write32(INSN_COUNT, len(program))
    client.write32(IRQ_MASK, 3)
    return x


def run(client: Client) -> int:
    """One job: the state it ends in. The interrupt has come, was acknowledged, and is low again."""
    client.write32(CTRL, START)
    assert client.wait_irq(5.0)
    client.write32(IRQ_STATUS, 3)
    assert client.irq_level == 0
    return client.read32(STATUS)


def output(client: Client) -> np.ndarray:
    return np.frombuffer(client.memory[Y : Y + 16], np.int8)


def test_job_does_dma_in_the_shared_memory_and_raises_the_interrupt(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as client:
        assert client.read32(ID).to_bytes(4, "little") == b"LDS1"
        assert client.read32(HASH) == CONFIG.config_hash
        x = set_up(client)
        assert run(client) == DONE
        np.testing.assert_array_equal(output(client), x + 1)


def test_memory_file_is_the_one_that_was_given(tmp_path: Path) -> None:
    file = tmp_path / "ram"
    file.write_bytes(bytes(0x10000))
    with (
        process(tmp_path, "--memory", str(file), "--base", "0x40000000") as (_, path),
        Client(path) as client,
    ):
        assert (client.base, len(client.memory)) == (0x40000000, 0x10000)
        x = set_up(client)
        assert run(client) == DONE
        np.testing.assert_array_equal(np.frombuffer(file.read_bytes()[Y : Y + 16], np.int8), x + 1)


def test_next_client_finds_the_device_as_it_was_left(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path):
        with Client(path) as client:
            set_up(client)
            client.write32(CTRL, START)
            assert client.wait_irq(5.0)
        with Client(path) as client:
            assert client.irq_level == 1
            assert client.read32(STATUS) == DONE


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


def test_answers_repeat_the_sequence_and_carry_the_level(tmp_path: Path) -> None:
    """The packets themselves, without Client."""
    with (
        process(tmp_path) as (_, path),
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as raw,
    ):
        raw.connect(str(path))
        raw.send(struct.pack("<4I", 0, 5, PROTOCOL_VERSION, 0))
        assert struct.unpack("<4I2I2Q", raw.recv(100)) == (
            0,
            5,
            PROTOCOL_VERSION,
            0,
            4096,
            0,
            0x10000000,
            64 << 20,
        )
        raw.send(struct.pack("<4I", 1, 0xFFFFFFFF, ID, 0))
        assert struct.unpack("<4I", raw.recv(100)) == (
            1,
            0xFFFFFFFF,
            int.from_bytes(b"LDS1", "little"),
            0,
        )
        raw.send(b"short")
        assert raw.recv(100) == b""  # what is no message ends the connection, not the server
        with Client(path) as client:
            assert client.read32(STATUS) == IDLE


@pytest.mark.parametrize("text", ["hang", "hang@", "hang@x", "melt@1", "hang@1:2:3", "hang@-1"])
def test_fault_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="KIND@JOB"):
        Fault.parse(text)


def test_fault_kinds_are_numbered_as_in_the_header(root: Path) -> None:
    header = (root / "hw_sim/include/lds_simdev.h").read_text()
    for number, kind in enumerate(FAULTS, 1):
        assert f"LDS_FAULT_{kind.upper().replace('-', '_')} = {number}" in header


def test_nobody_listening_is_one_clear_line(tmp_path: Path) -> None:
    with (
        device.open(f"simd:{tmp_path / 'nobody'}") as dev,
        pytest.raises(DeviceError, match="start `loadstone simd"),
    ):
        dev.load(copy_model())


def test_second_server_at_one_socket_is_refused_and_a_stale_socket_replaced(tmp_path: Path) -> None:
    with process(tmp_path) as (child, path):
        command = [sys.executable, "-m", "loadstone", "simd", str(path)]
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert (second.returncode, second.stderr.count("\n")) == (2, 1)
        assert str(path) in second.stderr
        child.kill()
        child.wait()
        assert path.is_socket()
    with process(tmp_path) as (_, path), Client(path) as client:
        assert client.read32(STATUS) == IDLE


def test_empty_memory_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "ram").touch()
    command = [
        sys.executable,
        "-m",
        "loadstone",
        "simd",
        str(tmp_path / "s"),
        "--memory",
        str(tmp_path / "ram"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30, env=os.environ
    )
    assert done.returncode == 2
    assert "truncate" in done.stderr
