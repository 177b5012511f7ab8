# SPDX-License-Identifier: Apache-2.0
"""Arbitrary packets to the simulator process: an honest client is served all the same.

In:   a number of seconds.
Out:  how many connections and packets were sent; what went wrong with the honest client.
Next: `python -m tests.fuzz packets`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.simd_client import Client, process

__all__ = ["fuzz"]

#: An honest client comes behind so many dishonest connections.
CONNECTIONS = 40


def fuzz(seconds: float, folder: Path, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Verdicts, and what was wrong."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    end = time.monotonic() + seconds
    with process(folder) as (server, path):
        while (time.monotonic() < end or not counts) and not wrong:
            for _ in range(CONNECTIONS):
                counts["packets"] += _connection(path, rng)
                counts["connections"] += 1
            if server.poll() is not None:
                wrong.append(f"the server ended with status {server.returncode}")
                break
            try:
                with Client(path) as client:
                    assert client.read32(0) != 0
                counts["honest clients"] += 1
            except (OSError, AssertionError) as error:
                wrong.append(f"an honest client: {type(error).__name__}: {error}")
    return counts, wrong


def _connection(path: Path, rng: np.random.Generator) -> int:
    """One client that says anything: the number of its packets."""
    sent = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.settimeout(0.2)
        with contextlib.suppress(OSError):
            channel.connect(str(path))
            for _ in range(rng.integers(1, 8)):
                channel.send(_packet(rng))
                sent += 1
                if rng.integers(2):
                    channel.recv(100)
    return sent


def _packet(rng: np.random.Generator) -> bytes:
    if rng.integers(3) == 0:
        return rng.bytes(int(rng.integers(1, 200)))
    words = [int(rng.choice([0, 1, 2, 3, 4, 1 << 31, (1 << 32) - 1])) for _ in range(4)]
    return struct.pack("<4I", *words)
