# SPDX-License-Identifier: Apache-2.0
"""A server of a device for the tests of it, and who speaks with it without the runtime.

In:   a folder; messages and descriptors.
Out:  `serving`: `loadstone serve` as a process; `asked`: what it answers; `nonsense`.
Next: test_serve.py, test_serve_messages.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.vta.device.hw_config import load_config
from tests.hosts.easy import Easy
from tests.sample_model import dense_model

__all__ = [
    "ANSWER_BYTES",
    "MODEL",
    "RESET",
    "RUN",
    "Serving",
    "answered",
    "asked",
    "connected",
    "die",
    "in_parts",
    "memory_file",
    "nonsense",
    "opening",
    "ran",
    "serving",
]

MODEL = dense_model(load_config("vtaq-1x16x16")).artifact
OPEN, RUN, RESET = 16, 17, 18
ANSWER_BYTES = 16 + 4 * 8 + 512


def in_parts(parts: int) -> Artifact:
    """The program of the sample model again and again: blocks of equal length."""
    (program,) = MODEL.programs
    at = MODEL.steps.index(program)
    again = tuple(replace(program, name=f"part {n}") for n in range(parts))
    return replace(MODEL, steps=(*MODEL.steps[:at], *again, *MODEL.steps[at + 1 :]))


@dataclass
class Serving:
    """`loadstone serve`."""

    process: subprocess.Popen[str]
    path: Path

    def name(self, **options: int) -> str:
        return f"served:{self.path}" + "".join(f";{k}={v}" for k, v in options.items())

    def end(self) -> dict[str, int]:
        """What it counted."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=20)
        assert (self.process.returncode, err) == (143, "")
        assert not self.path.exists()
        return dict(json.loads(out))

    def files(self) -> int:
        """Descriptors that it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settles(self, most: int) -> bool:
        """Whether it soon has no more than that open."""
        end = time.monotonic() + 10
        while self.files() > most and time.monotonic() < end:
            time.sleep(0.01)
        return self.files() <= most


@contextlib.contextmanager
def serving(folder: Path, name: str = "sim") -> Iterator[Serving]:
    path = folder / "npu.sock"
    command = [sys.executable, "-m", "loadstone", "serve", name, str(path), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == f"{name} at {path}\n"
            yield Serving(child, path)
        finally:
            child.kill()


def ran(net: Easy, shape: tuple[int, ...]) -> np.ndarray:
    out = MODEL.tensors[MODEL.outputs[0]].shape
    y = np.zeros(out, np.int8)
    net.run([np.ones(shape, np.int8)], [y])
    return y


# --- messages -------------------------------------------------------------------------------------
def connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(20)
    made.connect(str(path))
    return made


def memory_file(data: bytes) -> int:
    fd = os.memfd_create("artifact", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    return fd


def opening(version: int = 2, priority: int = 0, period: int = 0, deadline: int = 0) -> bytes:
    return struct.pack("<4I2Q", OPEN, 7, version, priority, period, deadline)


def asked(path: Path, message: bytes, fds: list[int]) -> tuple[int, str] | None:
    """(status, line) of the answer; None: the connection ended."""
    with connected(path) as one:
        with contextlib.suppress(BrokenPipeError):
            socket.send_fds(one, [message], fds)
        return answered(one)


def answered(one: socket.socket) -> tuple[int, str] | None:
    try:
        data, fds, _, _ = socket.recv_fds(one, ANSWER_BYTES + 1, 4)
    except ConnectionError:
        return None
    for fd in fds:
        os.close(fd)
    if not data:
        return None
    assert len(data) == ANSWER_BYTES
    status = struct.unpack_from("<i", data, 8)[0]
    return status, data[48:].split(b"\0")[0].decode()


def nonsense(path: Path, count: int, artifact: Artifact = MODEL) -> None:
    """Messages at random, with descriptors of anything, and artifacts with changed bytes."""
    rng = random.Random(count)
    good = artifact.to_bytes()
    for turn in range(count):
        fds = []
        message = rng.randbytes(rng.choice((0, 1, 15, 16, 17, 31, 32, 33, 600)) or 1)
        if turn % 2:
            message = opening(priority=rng.getrandbits(32))
            data = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            fds = [memory_file(bytes(data))]
        elif rng.random() < 0.5:
            fds = [os.open("/dev/zero", os.O_RDONLY) for _ in range(rng.randrange(1, 4))]
        got = asked(path, message, fds)
        for fd in fds:
            os.close(fd)
        assert got is None or got[0] < 0, got
        assert turn % 2 == 0 or got is not None


def die(path: Path, artifact: Artifact, count: int) -> None:
    """Clients that are gone in the middle of a run, one after the other."""
    data = artifact.to_bytes()
    for n in range(count):
        with connected(path) as one:
            fd = memory_file(data)
            socket.send_fds(one, [opening(priority=n % 4)], [fd])
            os.close(fd)
            assert answered(one) == (0, "")
            one.send(struct.pack("<4I", RUN, 1, 0, 0))
