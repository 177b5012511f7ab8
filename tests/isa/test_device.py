# SPDX-License-Identifier: Apache-2.0
"""A simulated accelerator behind its registers, at once and in a thread."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest

from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.device import TableDevice
from loadstone.isa.state import Dram, DramWindow
from tests.isa.tables import NPU, NPU_MEANING, npu

PROGRAM = [TableInsn("work", {"mode": 1}), TableInsn("end", {})]


def started(device: TableDevice, count: int) -> None:
    device.write32(0x1C, 3)
    device.write32(0x30, 0x1000)
    device.write32(0x38, count)
    device.write32(0x10, 1)


def memory() -> Dram:
    code = np.frombuffer(bytearray(encode(NPU, PROGRAM)), np.uint8)
    return Dram([DramWindow(0x1000, code)])


def test_a_program_at_once() -> None:
    device = TableDevice(npu(), memory())
    assert device.read32(8) == zlib.crc32(NPU.fingerprint)
    started(device, 2)
    assert (device.read32(0x14), device.read32(0x3C), device.jobs) == (3, 2, 1)
    assert (device.machine.state.memory["pad"] == 1).all()
    started(device, 3)
    assert (device.read32(0x14), device.read32(0x20)) == (4, 1)


def test_a_program_in_a_thread() -> None:
    changed = threading.Event()
    device = TableDevice(npu(), memory(), notify=changed.set)
    started(device, 2)
    while device.page.irq() == 0:
        assert changed.wait(60)
        changed.clear()
    assert device.read32(0x14) == 3
    device.write32(0x10, 2)
    assert (device.read32(0x14), device.running) == (1, False)


def test_the_next_program_starts_as_soon_as_the_last_is_done() -> None:
    """The host sees DONE in the registers before the thread of that job has ended."""
    changed, released = threading.Event(), threading.Event()
    done: list[int] = []

    def notify() -> None:
        if device.page.irq() and threading.current_thread() is not threading.main_thread():
            done.append(device.jobs)
            changed.set()
            assert released.wait(60)

    device = TableDevice(npu(), memory(), notify=notify)
    started(device, 2)
    assert changed.wait(60)
    changed.clear()
    device.write32(0x18, 3)
    started(device, 2)
    assert changed.wait(60), "the second job was not started"
    released.set()
    assert done == [1, 2]
    device.stop()


def test_a_meaning_that_fails_in_a_thread_is_a_fault(capfd: pytest.CaptureFixture[str]) -> None:
    """Not a device that hangs; the traceback is for whoever writes the meaning."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError("of a plug-in")

    changed = threading.Event()
    broken = npu(meaning={**NPU_MEANING, "work": fails})
    device = TableDevice(broken, memory(), notify=changed.set)
    started(device, 2)
    while device.page.irq() == 0:
        assert changed.wait(60)
        changed.clear()
    assert (device.read32(0x14), device.read32(0x20)) == (4, 1)
    assert "of a plug-in" in capfd.readouterr().err
