# SPDX-License-Identifier: Apache-2.0
"""simulator/simd.py: the protocol from both ends, and the memory that both share."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.runtime import device
from loadstone.simulator.simd import PROTOCOL_VERSION
from tests.sample_model import copy_model
from tests.simd_client import (
    CTRL,
    DONE,
    ID,
    IDLE,
    START,
    STATUS,
    Client,
    Y,
    process,
    run,
    set_up,
)


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


def test_who_shares_the_memory_is_told_so(tmp_path: Path) -> None:
    """And sends no request without an answer: nothing orders those of two sockets."""
    with process(tmp_path, "--device", "vtaq-1x16x16 -count=2 -bus=shared") as (_, path):
        for place in (path, Path(f"{path}.vtaq-1x16x16.1")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as raw:
                raw.connect(str(place))
                raw.send(struct.pack("<4I", 0, 5, PROTOCOL_VERSION, 0))
                assert struct.unpack("<4I2I2Q", raw.recv(100))[4:6] == (4096, 1)


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
