# SPDX-License-Identifier: Apache-2.0
"""The simulator of a plug-in's instructions: meanings in C beside those in NumPy.

In:   the vector engine of docs/examples/word_fifo; a sum of two tensors of 96,000 elements.
Out:  instructions a second of processor time, in pairs of one run; the ratio.
Next: docs/bring-your-own-accelerator.md has the figure.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from loadstone.backend.plugins import described_accelerator, load_plugins
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram, DramWindow
from tests.conftest import ROOT

_BASE, _CHUNK, _CHUNKS, _PAIRS = 0x10000, 1024, 94, 7


def _program() -> list[TableInsn]:
    numbers = (3, -5, 7, 1 << 30, 0, 1 << 30, 0, 1 << 30, -20, -128, 127)
    insns = [TableInsn("set", {"number": k, "value": value}) for k, value in enumerate(numbers)]
    size = {"size": _CHUNK - 1}
    for pointer in range(3):
        at = _BASE + pointer * _CHUNKS * _CHUNK
        insns.append(TableInsn("point", {"pointer": pointer, "address": at}))
    for chunk in range(_CHUNKS):
        where = {"chunk": chunk, **size}
        insns += [TableInsn("load", {"vector": k, "pointer": k, **where}) for k in range(2)]
        insns.append(TableInsn("add", {"target": 2, "a": 0, "b": 1, **size}))
        insns.append(TableInsn("store", {"vector": 2, "pointer": 2, **where}))
    return insns


def run() -> bool:
    """Prints the figures; False where the two differ."""
    plugins, insns = load_plugins([ROOT / "docs/examples/word_fifo"]), _program()
    data = np.random.default_rng(1).integers(0, 256, 3 * _CHUNKS * _CHUNK, np.uint8)
    seconds: dict[str, list[float]] = {"python": [], "c": []}
    left: dict[str, bytes] = {}
    for _ in range(_PAIRS):
        for meaning, taken in seconds.items():
            accelerator = described_accelerator(plugins, f"vector-engine -meaning={meaning}")
            assert accelerator is not None
            memory = data.copy()
            machine = TableMachine(accelerator, Dram([DramWindow(_BASE, memory)]))
            code = encode(accelerator.table, insns)
            machine.run(_BASE, len(insns), code)  # the first compiles
            begin = time.process_time()
            machine.run(_BASE, len(insns), code)
            taken.append(time.process_time() - begin)
            left[meaning] = memory.tobytes()
    for meaning, taken in seconds.items():
        print(f"{meaning:<7} {len(insns) / median(taken):>9,.0f} instructions a second")
    pairs = zip(seconds["python"], seconds["c"], strict=True)
    print(f"C is {median(a / b for a, b in pairs):.1f} times as fast")
    return left["python"] == left["c"]
