# SPDX-License-Identifier: Apache-2.0
"""Faults that a device has while a guest runs a network again and again, and what the guest must
then have printed.

In:   a network; where its constants stand in the DMA memory.
Out:  the faults for `loadstone simd`; assertions on the guest's lines.
Next: rungs 4 to 8, each on machines of its own.

    run      0   1          2   3             4           5   6                      7, 8
                            a program without memory
    fault        hangs          no interrupt  bus error       hangs beyond ABORT     a bit flipped
    status   0   reset, -31 0   0             -30, BUS    0   reset, -31             0, as flipped
                        BUS
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from loadstone.vta.isa.registers import ERRORS, STATES
from tests.board import console
from tests.board.models import Network

__all__ = [
    "ABSENT",
    "RUNS",
    "check",
    "check_all_interrupts",
    "check_fails",
    "check_gone",
    "check_healthy",
    "check_killed",
    "failing",
    "faults",
]

RUNS = 9
#: Of runs 0 to 2, 4, 5, 7 and 8 (an aborted job raises one, a reset one none), and of the program
#: without memory.
_INTERRUPTS = 8
#: Statuses of runtime/include/loadstone.h.
_DEVICE, _HUNG, ABSENT = -30, -31, -33
#: The bit that flips, in the middle of the constants: the sign of a weight.
_BIT = 7


def _flipped_offset(network: Network) -> int:
    assert network.artifact.regions[0].name == "constants"
    return 100


def faults(network: Network, pool: int) -> list[str]:
    """Arguments of `--fault`. pool: bus address of the DMA memory, where region 0 stands first."""
    assert len(network.artifact.programs) == 1, "jobs are counted as runs"
    bit = (pool + _flipped_offset(network)) * 8 + _BIT
    return ["hang@1:1", "lost-irq@3", "bus-error@4:2", "hang-reset@6", f"bit-flip@7:{bit}"]


def check(lines: Sequence[str], network: Network, *, interrupts: bool = True) -> None:
    """The guest recovered from all of them, noticed those that can be noticed, and computed the
    native bytes."""
    runs = console.runs(lines)
    flipped = network.with_bit_flipped(_flipped_offset(network), _BIT)
    assert [run.status for run in runs] == [0, _HUNG, 0, 0, _DEVICE, 0, _HUNG, 0, 0]
    assert [run.error for run in runs] == [0, 0, 0, 0, ERRORS["BUS"][0], 0, 0, 0, 0]
    for k, run in enumerate(runs):
        if run.status == 0:
            native, sample = flipped if k >= 7 else network, k % len(network.inputs)
            assert run.output == native.outputs[sample], f"run {k}"
            assert run.cycles == native.cycles[sample], f"run {k}"
    assert flipped.outputs != network.outputs
    bad = console.bad_address(lines)
    assert (bad.state, bad.error, bad.address) == (STATES["ERROR"], ERRORS["BUS"][0], 0x30000000)
    assert bad.irq == 0, "the interrupt did not come"
    if interrupts:
        handled = console.interrupts(lines)
        assert handled == _INTERRUPTS, f"the handler ran {handled} times"


def failing(network: Network, number: int, healthy: int = 1) -> list[str]:
    """Faults of one of its devices, whose number in the model this is, each in the device's second
    job after `healthy` sound runs: a bus error, a hang, one beyond ABORT; then no answer, for
    ever."""
    name, per_run = network.artifact.devices[number].name, len(network.artifact.programs_of(number))
    second, faults, jobs = min(1, per_run - 1), list[str](), 0
    for kind in ("bus-error", "hang", "hang-reset", "absent"):
        at = jobs + healthy * per_run + second
        faults.append(f"{name}:{kind}@{at}" + (":0" if kind == "absent" else ":1"))
        jobs = at + 1
    return faults


def check_fails(lines: Sequence[str], network: Network, number: int) -> None:
    """Of runs 0 to 8 those with a fault (`failing`) ended with its status and named the device; the
    others computed the native bytes in the native cycles, until no device answered."""
    runs = console.runs(lines)
    wanted = [0, _DEVICE, 0, _HUNG, 0, _HUNG, 0, ABSENT, ABSENT]
    assert [run.status for run in runs] == wanted
    assert [run.device for run in runs] == [number if status else 0 for status in wanted]
    assert runs[1].error == ERRORS["BUS"][0]
    for k in (0, 2, 4, 6):
        sample = k % len(network.inputs)
        assert runs[k].output == network.outputs[sample], f"run {k}"
        assert runs[k].cycles == network.cycles[sample], f"run {k}"


def check_healthy(lines: Sequence[str], network: Network) -> None:
    """Without faults: each input once, the native bytes."""
    runs = console.runs(lines)
    assert [run.status for run in runs] == [0] * len(network.inputs)
    assert tuple(run.output for run in runs) == network.outputs


def check_all_interrupts(lines: Sequence[str], network: Network) -> None:
    """The same; and there was an interrupt of each job, of every device, and of the program without
    memory."""
    check_healthy(lines, network)
    jobs = len(network.inputs) * len(network.artifact.programs) + 1
    assert console.interrupts(lines) == jobs


def check_killed(lines: Sequence[str], network: Network, kills: int) -> None:
    """A second process was told whose the device is, and gave nothing; behind each one that was
    killed the next computed the native bytes."""
    refused = next(k for k, line in enumerate(lines) if line.startswith("/dev/uio0"))
    assert re.fullmatch(r"/dev/uio0: in use by process \d+ \(init\)", lines[refused]), lines
    assert lines[refused + 1] == "killed 0", lines
    places = [k for k, line in enumerate(lines) if line.startswith("killed ")]
    assert len(places) == kills
    for begin, end in pairwise([*places, len(lines)]):
        check_healthy(lines[begin:end], network)


def check_gone(lines: Sequence[str], network: Network, first: int) -> None:
    """From run `first` on there is no device, each run says so, and the guest comes to its end."""
    runs = console.runs(lines)
    assert [run.status for run in runs] == [0] * first + [ABSENT] * (len(runs) - first)
    assert [run.output for run in runs[:first]] == [
        network.outputs[k % len(network.inputs)] for k in range(first)
    ]
    assert console.bad_address(lines).state == 0xFFFFFFFF
