# SPDX-License-Identifier: Apache-2.0
"""What a guest printed, as data.

In:   the lines of board/guest/run_cases.c.
Out:  Run, BadAddress.
Next: the tests compare them with a native run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BadAddress", "Run", "bad_address", "interrupts", "runs"]


@dataclass(frozen=True)
class Run:
    """One run: the status of the C runtime, the device's error and its number, cycles, the bytes of
    output 0."""

    status: int
    error: int
    device: int
    cycles: int
    output: bytes


@dataclass(frozen=True)
class BadAddress:
    """What became of a program at an address without memory. irq is 0 when the interrupt came."""

    irq: int
    state: int
    error: int
    address: int


def runs(lines: Sequence[str]) -> list[Run]:
    """All runs, in order. AssertionError, with the whole console, when the guest did not come to
    its end."""
    assert "done" in lines, "the guest did not finish:\n" + "\n".join(lines)
    found = [
        re.fullmatch(
            r"run \d+ status (-?\d+) error (\d+) device (\d+) cycles (\d+) output ([0-9a-f]*)", line
        )
        for line in lines
    ]
    return [Run(*map(int, m.groups()[:4]), bytes.fromhex(m[5])) for m in found if m]


def bad_address(lines: Sequence[str]) -> BadAddress:
    """The result of that case. AssertionError when it is missing."""
    return BadAddress(
        *_numbers(lines, r"bad-address irq (-?\d+) state (\d+) error (\d+) address (\d+)")
    )


def interrupts(lines: Sequence[str]) -> int:
    """How many interrupts the guest's handler has counted."""
    return _numbers(lines, r"interrupts (\d+)")[0]


def _numbers(lines: Sequence[str], form: str) -> list[int]:
    found = next((m for line in lines if (m := re.fullmatch(form, line))), None)
    assert found, f"no line is {form!r}:\n" + "\n".join(lines)
    return [int(number) for number in found.groups()]
