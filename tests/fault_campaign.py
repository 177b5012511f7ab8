# SPDX-License-Identifier: Apache-2.0
"""Runs with random faults, on every register page: none may be wrong with status 0.

In:   how many runs, a seed.
Out:  how each ended, by fault; what was wrong.
Next: test_fault_campaign.py runs a slice of it.

    nice .venv/bin/python -m tests.fault_campaign --runs 10000

A device hangs, lies about its state, vanishes, says DONE of the last program, loses an interrupt or
reports a bus error; a process is killed in the middle of its runs, or a second one wants the
device. After each fault the next run must be right (a device that vanished is put back first).
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from loadstone.errors import LoadstoneError
from loadstone.library.native import lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.sample_model import Dense, dense_model

__all__ = ["Campaign", "main"]

#: A device of each register page.
PAGES = ("vta-pynq", "vta-de10nano", "vtaq-1x16x16")
#: Fault of hw_sim/include/lds_simdev.h -> what its argument is drawn from.
ORDERED: dict[str, Callable[[np.random.Generator], int]] = {
    "NONE": lambda _: 0,
    "HANG": lambda rng: int(rng.integers(4)),
    "HANG_RESET": lambda rng: int(rng.integers(4)),
    "HANG_HW_RESET": lambda rng: int(rng.integers(4)),
    "LOST_IRQ": lambda _: 0,
    "BUS_ERROR": lambda rng: int(rng.integers(4)),
    "DONE_LINGERS": lambda rng: int(10 ** rng.uniform(0, 4)),
    "ABSENT": lambda rng: int(rng.choice([0xFFFFFFFF, 0, 1, 2, 3, 0x81, rng.integers(1 << 32)])),
    "LIES": lambda rng: int(rng.choice([0, 1, 5, 77, 0x80000000, 0xFFFFFFFE])),
}
_HANG_SECONDS = 1.0  # a busy machine may leave a simulated device alone for so long
#: Of all rounds: a process is killed; a second one is refused, which takes seconds.
_KILLS, _SECONDS = 0.1, 0.003


class Campaign:
    """Counts (fault, how a run ended); `wrong` names what may not be."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = np.random.default_rng(seed)
        self.ends: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.folder = folder
        self.models = {name: dense_model(load_config(name)) for name in PAGES}

    @property
    def runs(self) -> int:
        """Ended so far, in whatever way."""
        return self.ends.total()

    def go(self, runs: int) -> None:
        """Rounds until so many runs have ended."""
        with ExitStack() as stack:
            opened = {name: stack.enter_context(device.open("sim")) for name in PAGES}
            sessions = {
                name: opened[name].load(self.models[name].artifact, hang_seconds=_HANG_SECONDS)
                for name in PAGES
            }
            sockets = {name: stack.enter_context(self._simulator(name)) for name in PAGES}
            while self.runs < runs:
                name, kind = str(self.rng.choice(PAGES)), self.rng.random()
                if kind < _SECONDS:
                    self._second(name, sockets[name])
                elif kind < _SECONDS + _KILLS:
                    self._killed(name, sockets[name])
                else:
                    self._faulty(name, opened[name], sessions[name])

    # --- faults of the device ---------------------------------------------------------------------
    def _faulty(self, name: str, opened: device.OpenedDevice, session: device.Session) -> None:
        simulated = lib().lds_hal_sim_device(opened.sim)
        fault = str(self.rng.choice(list(ORDERED)))
        argument = ORDERED[fault](self.rng)
        lib().lds_simdev_fault(simulated, getattr(lib(), f"LDS_FAULT_{fault}"), 0, argument)
        self._run(name, f"{fault.lower()} {name}", session)
        if fault == "ABSENT":
            lib().lds_simdev_hw_reset(simulated)
        self._run(name, f"after {fault.lower()} {name}", session, right=True)

    def _run(self, name: str, what: str, session: device.Session, *, right: bool = False) -> None:
        """One run. right: nothing else is allowed."""
        dense = self.models[name]
        x = self._draw(dense)
        try:
            (y,) = session.run([x])
        except LoadstoneError as error:
            self.ends[what, _said(error)] += 1
            if right:
                self.wrong.append(f"{what}: {error}")
            return
        same = np.array_equal(y, dense.expected(x))
        self.ends[what, "right" if same else "WRONG"] += 1
        if not same:
            self.wrong.append(f"{what}: wrong with status 0")

    def _draw(self, dense: Dense) -> np.ndarray:
        return self.rng.integers(-128, 128, (1, 1, dense.weights.shape[1]), np.int8)

    # --- processes --------------------------------------------------------------------------------
    @contextmanager
    def _simulator(self, name: str) -> Iterator[Path]:
        socket = self.folder / f"{name}.sock"
        words = [sys.executable, "-m", "loadstone", "simd", str(socket), "--device", name]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as simulator:
            assert simulator.stdout is not None
            assert simulator.stdout.readline()
            try:
                yield socket
            finally:
                simulator.kill()

    def _other(self, name: str, socket: Path) -> int:
        """A process that runs the model for ever; its number, once it does."""
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with device.open(f"simd:{socket}") as opened:
                    session = opened.load(self.models[name].artifact)
                    x = [self._draw(self.models[name])]
                    session.run(x)
                    os.write(there, b"+")
                    while True:
                        session.run(x)
            finally:
                os._exit(1)
        os.close(there)
        assert os.read(here, 1) == b"+", f"the other process of {name} does not run"
        os.close(here)
        return child

    def _killed(self, name: str, socket: Path) -> None:
        child = self._other(name, socket)
        time.sleep(self.rng.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        with device.open(f"simd:{socket}") as opened:
            session = opened.load(self.models[name].artifact)
            for _ in range(2):
                self._run(name, f"after a kill {name}", session, right=True)
        os.waitpid(child, 0)

    def _second(self, name: str, socket: Path) -> None:
        child = self._other(name, socket)
        try:
            with device.open(f"simd:{socket}") as opened:
                opened.load(self.models[name].artifact)
            self.wrong.append(f"a second process has {name}")
        except LoadstoneError as error:
            self.ends[f"second process {name}", _said(error)] += 1
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _said(error: LoadstoneError) -> str:
    """The end of its line, without what differs from run to run."""
    return re.sub(r"\d+|/\S+", "N", str(error).rpartition("): ")[2].rpartition(": ")[2])[:70]


def main() -> int:
    """Prints a line for each fault and end; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lds-faults-") as folder:
        campaign = Campaign(args.seed, Path(folder))
        begin = time.monotonic()
        campaign.go(args.runs)
    for (fault, end), count in sorted(campaign.ends.items()):
        print(f"{count:>6}  {fault:<32} {end}")
    seconds = time.monotonic() - begin
    print(f"{campaign.runs} runs in {seconds:.0f} s, {len(campaign.wrong)} wrong")
    for line in campaign.wrong[:20]:
        print(line)
    return 1 if campaign.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
