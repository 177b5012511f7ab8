# SPDX-License-Identifier: Apache-2.0
"""Several networks in one firmware, as `loadstone export` writes it: what they give there, and what
the others give while one fails.

In:   a folder; the kind of board.
Out:  assertions on what the firmware prints.
Next: test_cortex_m.py, test_riscv.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from tests.board import models
from tests.board.build import TOOLCHAINS
from tests.board.emulator import MACHINES, boot
from tests.board.exported import BOARDS
from tests.board.models import Network
from tests.board.tools import need, run
from tests.cached_cc import make_with_cache

__all__ = ["check_faults", "check_periods"]


def check_periods(folder: Path, board: str) -> None:
    """Released together they run in the order of their priorities, and each gives what it gives
    alone, in its own cycles, period after period."""
    networks, runs = _networks(folder), 3
    words = ["--priorities", "5,9,2,3", "--periods", "30ms,40ms,0.05s,60ms"]
    flags = f"-DNETWORK_RUNS={runs}u"
    lines = _lines(networks, folder, *words, board=board, flags=flags)
    for name, network in networks.items():
        assert _said_of(lines, name) == [f"{name}: {said}" for said in _result_of(network)] * runs
    ended = list(dict.fromkeys(line.partition(":")[0] for line in lines))
    assert ended == ["dense", "convolutions", "gate", "island"]


def check_faults(folder: Path, board: str) -> None:
    """A bus error, then a hang, in the first and the third of four runs of the network of highest
    priority, which comes before the others."""
    networks, runs = _networks(folder), 4
    faults, flags = ["bus-error@0:2", "hang@2:1"], f"-DNETWORK_RUNS={runs}u"
    lines = _lines(networks, folder, board=board, flags=flags, wrong=faults)
    first, *others = networks.items()
    for name, network in others:
        assert _said_of(lines, name) == [f"{name}: {said}" for said in _result_of(network)] * runs
    told = _said_of(lines, first[0])
    bus = "status -30: the device stopped with an error; step 1, instruction 2, "
    assert told[0].startswith(f"{first[0]}: {bus}"), told
    healthy = [f"{first[0]}: {said}" for said in _result_of(first[1])]
    rest = [line for line in told[1:] if "status" not in line]
    assert rest == healthy * 2, told
    assert sum("status -31: the device hung and was reset" in line for line in told) == 1


def _networks(folder: Path) -> dict[str, Network]:
    """Two networks that share a device, one with steps in C, one with operators of real numbers."""
    return {
        "convolutions": models.convolutions(folder),
        "dense": models.dense("vtaq-1x16x16"),
        "island": models.islands(folder),
        "gate": models.gates(folder),
    }


def _said_of(lines: Sequence[str], name: str) -> list[str]:
    """Its lines, without how long it took in an emulator, which keeps no time."""
    return [line.partition(", microseconds")[0] for line in lines if line.startswith(f"{name}: ")]


def _result_of(network: Network) -> list[str]:
    numbers = " ".join(str(byte) for byte in network.outputs[0])
    return [f"output {numbers}", f"cycles {network.cycles[0]}"]


def _lines(
    networks: Mapping[str, Network],
    folder: Path,
    *words: str,
    board: str,
    flags: str = "",
    wrong: Sequence[str] = (),
) -> list[str]:
    """What a project of several networks prints, each with its first input. words: for `loadstone
    export`. wrong: of the device, for which the firmware ends with a status."""
    kind = BOARDS[board]
    machine, chain = MACHINES[kind.machine], TOOLCHAINS[kind.toolchain]
    need(chain.prefix + "gcc", chain.packages)
    need("make", "make")
    models, samples = list[str](), list[str]()
    for name, network in networks.items():
        network.artifact.save(folder / f"{name}.lds")
        np.savez(folder / f"{name}.npz", in0=network.inputs[:1])
        models.append(str(folder / f"{name}.lds"))
        samples += ["--sample", str(folder / f"{name}.npz")]
    project = folder / "firmware"
    export = ["export", *models, "--board", kind.exports, "-o", str(project)]
    assert main([*export, *samples, *words]) == 0
    where = f"-DBOARD_REGISTERS={machine.registers:#x}u -DBOARD_IRQ={machine.line}"
    cached = make_with_cache(chain.prefix + "gcc")
    run(["make", "-C", project, f"FLAGS=-Werror {kind.prints} {where} {flags}", *kind.make, cached])
    booted = [kind.boots, project / "model.elf", *kind.arguments]
    (device,) = {network.device for network in networks.values()}
    with boot(kind.machine, booted, device=device, faults=wrong) as running:
        if wrong:
            with pytest.raises(AssertionError, match="QEMU ended with"):
                running.finish()
            return running.lines
        return running.finish()
