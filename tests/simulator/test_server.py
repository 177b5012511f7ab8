# SPDX-License-Identifier: Apache-2.0
"""The simulator process among clients that are silent, deaf, broken or hostile; and a client of a
server that lies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.runtime import device
from loadstone.simulator.server import (
    BUSY_SECONDS,
    GREETING_SECONDS,
    SILENT_SECONDS,
    Server,
)
from loadstone.simulator.simd import PROTOCOL_VERSION, SharedMemory
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.registers import ERRORS
from loadstone.vta.simulator.simd_device import SimulatedDevice
from tests.sample_model import copy_model, endless_model
from tests.simd_client import (
    CTRL,
    DONE,
    ERROR,
    FAILED,
    HELLO,
    IDLE,
    INSN_COUNT,
    IRQ,
    IRQ_MASK,
    POST,
    READ,
    START,
    STATUS,
    WRITE,
    Client,
    output,
    process,
    run,
    set_up,
)


def raw(path: Path) -> socket.socket:
    """A connection that says nothing by itself."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(path))
    connection.settimeout(10.0)
    return connection


def hello(connection: socket.socket) -> bytes:
    connection.send(struct.pack("<4I", HELLO, 0, PROTOCOL_VERSION, 0))
    return connection.recv(100)


@pytest.mark.parametrize("size", [0, 1, 15, 17, 40, 4096])
@pytest.mark.parametrize("greeted", [False, True])
def test_a_packet_of_another_size_ends_the_connection(
    tmp_path: Path, size: int, greeted: bool
) -> None:
    with process(tmp_path) as (_, path), raw(path) as connection:
        if greeted:
            hello(connection)
        connection.send(
            struct.pack("<4I", READ if greeted else HELLO, 1, 1, 0).ljust(size, b"\0")[:size]
        )
        assert connection.recv(100) == b""
        with Client(path) as client:
            assert client.read32(STATUS) == IDLE


def test_a_request_before_hello_or_of_no_kind_ends_the_connection(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path):
        for greeted, kind in (
            (False, READ),
            (False, WRITE),
            (False, POST),
            (True, IRQ),
            (True, 99),
        ):
            with raw(path) as connection:
                if greeted:
                    hello(connection)
                connection.send(struct.pack("<4I", kind, 1, 0, 0))
                assert connection.recv(100) == b"", (greeted, kind)


def test_silent_connections_keep_nobody_waiting(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), contextlib.ExitStack() as ends:
        silent = [ends.enter_context(raw(path)) for _ in range(40)]  # more than the server keeps
        begin = time.monotonic()
        with Client(path) as client:
            assert client.read32(STATUS) == IDLE
            assert time.monotonic() - begin < 2
            assert silent[0].recv(100) == b"", "the oldest has made room"
            assert silent[-1].recv(100) == b"", "who says nothing is dropped after a while"
            assert time.monotonic() - begin > GREETING_SECONDS - 1
            assert client.read32(STATUS) == IDLE


def test_one_silent_connection_costs_nothing(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), raw(path):
        begin = time.monotonic()
        with Client(path) as client:
            assert client.read32(STATUS) == IDLE
        assert time.monotonic() - begin < 1


def test_a_client_that_reads_no_answer_is_dropped(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), raw(path) as deaf:
        hello(deaf)
        with contextlib.suppress(ConnectionError):
            for _ in range(100_000):
                deaf.send(struct.pack("<4I", READ, 1, 0, 0))
            raise AssertionError("the server takes it all")
        with Client(path) as client:
            assert client.read32(STATUS) == IDLE


def test_requests_without_an_answer_are_done_in_their_order(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as client:
        for value in range(1, 1000):
            client.post32(INSN_COUNT, value)
            if value % 333 == 0:
                assert client.read32(INSN_COUNT) == value
        assert client.read32(STATUS) == IDLE, "an answer of another sequence would be noticed"


def test_the_line_that_a_request_without_an_answer_raises_is_told(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as client:
        set_up(client)
        client.post32(IRQ_MASK, 0)
        client.post32(CTRL, START)
        while client.read32(STATUS) != DONE:
            pass
        assert client.irq_level == 0
        client.post32(IRQ_MASK, 3)
        assert client.wait_irq(5.0)


def test_who_wants_no_answers_keeps_nobody_waiting(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), raw(path) as busy, raw(path) as second:
        hello(busy)
        ends = threading.Event()

        def talk() -> None:
            while not ends.is_set():
                busy.send(struct.pack("<4I", POST, 0, INSN_COUNT, 1))

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            assert hello(second) == struct.pack("<4I", HELLO, 0, 0, 0), "the device is in use"
        finally:
            ends.set()
            thread.join()


def test_who_has_the_device_keeps_it_while_it_speaks(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as first:
        x = set_up(first)
        answers: list[bytes] = []

        def second() -> None:
            with raw(path) as connection:
                answers.append(hello(connection))
                answers.append(connection.recv(100))

        thread = threading.Thread(target=second)
        thread.start()
        while thread.is_alive():
            assert run(first) == DONE
            time.sleep(0.05)
        assert answers == [struct.pack("<4I", HELLO, 0, 0, 0), b""]
        np.testing.assert_array_equal(output(first), x + 1)


def test_a_device_in_use_is_one_clear_line(tmp_path: Path) -> None:
    ram = tmp_path / "ram"
    ram.write_bytes(
        bytes(0x10000)
    )  # a machine's memory: its client may be silent, and keeps the device
    with process(tmp_path, "--memory", str(ram)) as (_, path), Client(path) as first:
        begin = time.monotonic()
        with (
            device.open(f"simd:{path}") as dev,
            pytest.raises(DeviceError, match="in use by another client"),
        ):
            dev.load(copy_model())
        assert BUSY_SECONDS <= time.monotonic() - begin < BUSY_SECONDS + 3
        assert first.read32(STATUS) == IDLE


def test_a_silent_client_gives_way_and_reaches_the_next_ones_memory_no_more(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), Client(path) as old:
        set_up(old)
        assert run(old) == DONE
        time.sleep(SILENT_SECONDS)
        begin = time.monotonic()
        with Client(path) as new:
            assert time.monotonic() - begin < 1
            x = set_up(new)
            old.memory[:0x10000] = b"\xff" * 0x10000
            assert run(new) == DONE
            np.testing.assert_array_equal(output(new), x + 1)
            with pytest.raises((ConnectionError, struct.error)):
                old.read32(STATUS)


def test_nobody_can_make_the_memory_shorter(tmp_path: Path) -> None:
    with process(tmp_path) as (_, path), raw(path) as connection:
        connection.send(struct.pack("<4I", HELLO, 0, PROTOCOL_VERSION, 0))
        _, (fd,), _, _ = socket.recv_fds(connection, 100, 1)
        wanted = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & wanted == wanted
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
        os.close(fd)


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_memory_file_that_becomes_shorter_is_a_bus_error_of_the_job(
    tmp_path: Path, when: str
) -> None:
    """The file of an emulated machine has no seals: the server must outlive what others do to
    it."""
    file = tmp_path / "ram"
    file.write_bytes(bytes(0x10000))
    with process(tmp_path, "--memory", str(file)) as (child, path), Client(path) as client:
        set_up(client)
        if when == "during":
            assert run(client) == DONE
        os.truncate(file, 0)
        for _ in range(2):
            assert run(client) == FAILED
            assert client.read32(ERROR) == ERRORS["BUS"][0]
        assert child.poll() is None


def test_c_client_refuses_memory_that_could_become_shorter(tmp_path: Path) -> None:
    file = tmp_path / "ram"
    file.write_bytes(bytes(0x100000))
    with (
        process(tmp_path, "--memory", str(file)) as (_, path),
        device.open(f"simd:{path}") as dev,
        pytest.raises(DeviceError, match="not sealed"),
    ):
        dev.load(copy_model())


@pytest.mark.parametrize(
    ("answer", "sealed", "message"),
    [
        (
            struct.pack("<4I2I2Q", HELLO, 0, PROTOCOL_VERSION, 0, 4096, 0, 0x10000000, 1 << 16),
            False,
            "not sealed",
        ),
        (
            struct.pack(
                "<4I2I2Q", HELLO, 0, PROTOCOL_VERSION, 0, 4096, 0, 0x10000000, (1 << 16) + 1
            ),
            True,
            "not sealed",
        ),
        (
            struct.pack("<4I2I2Q", HELLO, 0, PROTOCOL_VERSION, 0, 4096, 0, (1 << 64) - 8, 1 << 16),
            True,
            "not sealed",
        ),
        (
            struct.pack("<4I2I2Q", HELLO, 0, PROTOCOL_VERSION + 1, 0, 4096, 0, 0x10000000, 1 << 16),
            True,
            "another version",
        ),
        (
            struct.pack("<4I2I2QB", HELLO, 0, PROTOCOL_VERSION, 0, 4096, 0, 0x10000000, 1 << 16, 0),
            True,
            "no simulator answers",
        ),
        (struct.pack("<4I", HELLO, 0, PROTOCOL_VERSION, 0), True, "no simulator answers"),
        (b"short", True, "no simulator answers"),
    ],
    ids=["unsealed", "too-short", "beyond-the-bus", "version", "long", "no-memory", "short"],
)
def test_c_client_against_a_server_that_lies(
    tmp_path: Path, answer: bytes, sealed: bool, message: str
) -> None:
    check_refused(tmp_path / "liar", answer, sealed, message)


def test_c_client_takes_one_descriptor_and_closes_all_others(tmp_path: Path) -> None:
    answer = struct.pack("<4I2I2Q", HELLO, 0, PROTOCOL_VERSION, 0, 4096, 0, 0x10000000, 1 << 16)
    for count in (0, 2, 4, 9):  # there is room for four
        check_refused(tmp_path / str(count), answer, True, "no simulator answers", count)


def check_refused(
    path: Path, answer: bytes, sealed: bool, message: str, descriptors: int = 1
) -> None:
    """By a client whose server gives this answer, with a file so many times."""
    fd = os.memfd_create("liar", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 1 << 16)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()

        def lie() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                socket.send_fds(connection, [answer], [fd] * descriptors)
                connection.recv(100)

        thread = threading.Thread(target=lie)
        thread.start()
        before = len(os.listdir("/proc/self/fd"))
        with device.open(f"simd:{path}") as dev, pytest.raises(DeviceError, match=message):
            dev.load(copy_model())
        thread.join()
        assert len(os.listdir("/proc/self/fd")) <= before, "no descriptor is left open"
    os.close(fd)


def test_a_socket_is_there_when_it_is_listened_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for the file connects as soon as he sees it."""
    path, listen = tmp_path / "sock", socket.socket.listen
    there = []

    def listens(own: socket.socket, backlog: int) -> None:
        there.append(path.exists())
        listen(own, backlog)

    monkeypatch.setattr(socket.socket, "listen", listens)
    memory = SharedMemory.anonymous(0x2000_0000, 1 << 16)
    served = SimulatedDevice(load_config("vtaq-1x8x8"), memory)
    server = Server(path, served, memory)
    try:
        raw(path).close()
        with pytest.raises(DeviceError, match=r"sock: Address already in use$"):
            Server(path, served, memory)
        assert not there[0]
        assert os.listdir(tmp_path) == ["sock"], "no name of its own is left"
    finally:
        server.close()
        served.close()


def test_a_path_that_no_socket_can_have_is_one_line(tmp_path: Path) -> None:
    memory = SharedMemory.anonymous(0x2000_0000, 1 << 16)
    served = SimulatedDevice(load_config("vtaq-1x8x8"), memory)
    with pytest.raises(DeviceError, match=r"bytes of path; 107 are the most: name a shorter one$"):
        Server(tmp_path / ("s" * 108), served, memory)
    served.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_at_once_and_take_the_socket_away(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    command = [sys.executable, "-c", _SERVE, str(tmp_path / "simd.sock")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            with (
                device.open(f"simd:{tmp_path}/simd.sock") as dev,
                dev.load(endless_model()) as session,
            ):
                session.start()
                assert not session.wait(0.1)
                begin = time.monotonic()
                child.send_signal(number)
                out, err = child.communicate(timeout=20)
        finally:
            child.kill()
    assert (child.returncode, err) == (status, "\n" if number == signal.SIGINT else "")
    assert float(out) - begin < 1, "a tenth of a second on a machine without other work"
    assert not (tmp_path / "simd.sock").exists()


#: `loadstone simd`, which says at what time (monotonic) it ends.
_SERVE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from loadstone import cli
status = cli.main(["simd", *sys.argv[1:]])
print(time.monotonic())
sys.exit(status)
"""
