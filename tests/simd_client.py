# SPDX-License-Identifier: Apache-2.0
"""A client of the simulator process, packet by packet, and a small program for it.

In:   a folder for the socket.
Out:  `process`: the server; `Client`: registers, interrupt, memory; `set_up`, `run`, `output`: a
      job.
Next: simulator/test_server.py, hosts/test_serve.py.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from loadstone.simulator.simd import PROTOCOL_VERSION
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import Alu, Finish, Load, Store, encode_stream, encode_uops
from loadstone.vta.isa.spec import AluOp
from loadstone.vta.isa.spec import Memory as Pad

HELLO, READ, WRITE, IRQ, POST = range(5)
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

    def post32(self, offset: int, value: int) -> None:
        """Goes on before it is done."""
        self._socket.send(struct.pack("<4I", POST, 0, offset, value))

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
            line = child.stdout.readline()
            assert f" at {path}: " in line, line
            yield child, path
        finally:
            child.kill()


def set_up(client: Client) -> np.ndarray:
    """Puts a program that copies 16 int8, and adds 1, into the memory. Returns x; y is at Y."""
    base = client.base
    program = [
        Load(memory_id=Pad.UOP, region=0, y_size=1, x_size=1, x_stride=1),
        Load(memory_id=Pad.ACC_8BIT, region=1, y_size=1, x_size=1, x_stride=1),
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
        Store(memory_id=Pad.OUT, region=2, y_size=1, x_size=1, x_stride=1, pop_prev=1, push_prev=1),
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
