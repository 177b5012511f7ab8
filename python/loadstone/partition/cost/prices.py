# SPDX-License-Identifier: Apache-2.0
"""The cost of each step of an artifact: device programs on the simulator, host steps by the clock
or as a stated host has it; kept in a file.

In:   an Artifact and its device; a JSON file of costs, if there is one.
Out:  nanoseconds of every step; the file with the new costs added.
Next: choice.py compares plans by them.

A cost is looked up by what determines it and not by a layer's name, so that equal layers are
measured once:

    host_ns         operator, types and shapes of its tensors, and a digest of its parameters
    device_cycles   device, and a digest of everything that determines them in its simulator

A host step is timed as C (runtime/step_time.py), or has the cycles of a host that was named
(hosts.py), whose name is then part of the key. Times are rounded to two digits, but still differ
from one measurement to the next. With the same file two compilations use the same costs. You can
edit the file, to enter the times of the board's CPU for instance.
"""

from __future__ import annotations

import json
from math import floor, log10
from pathlib import Path

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.device import Device
from loadstone.errors import ConfigError
from loadstone.files import parsed_json, read_whole, write_whole
from loadstone.partition.cost.hosts import StatedHost
from loadstone.runtime.step_signature import digest, step_signature
from loadstone.runtime.step_time import has_compiler, measured_ns
from loadstone.simulator.programs import simulators

__all__ = ["CostTable"]

_FORMAT = 1


def _is_price(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


class CostTable:
    """Costs for one device. path: the file; None: nothing is kept. host: whose costs host steps
    have; None: this machine's. Raises ConfigError for a file that is none of ours."""

    def __init__(
        self, device: Device, path: str | Path | None = None, host: StatedHost | None = None
    ) -> None:
        self.device = device
        self.host = host
        self.path = None if path is None else Path(path)
        self.host_ns: dict[str, int] = {}
        self.device_cycles: dict[str, int] = {}
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def steps_ns(self, artifact: Artifact) -> list[int]:
        """Every step of the artifact, in order. Raises SimulationError for a program that does not
        end."""
        programs = self._programs_ns(artifact)
        return [
            self._host_ns(step, artifact) if isinstance(step, HostStep) else programs[number]
            for number, step in enumerate(artifact.steps)
        ]

    def save(self) -> None:
        """Writes the file, entries in order. Raises ConfigError when it cannot be written."""
        if self.path is None:
            return
        known = {
            "format": _FORMAT,
            "host_ns": dict(sorted(self.host_ns.items())),
            "device_cycles": dict(sorted(self.device_cycles.items())),
        }
        try:
            write_whole(self.path, json.dumps(known, indent=1) + "\n")
        except OSError as error:
            raise ConfigError(f"costs {self.path}: {error.strerror}") from None

    def _read(self, path: Path) -> None:
        try:
            data = parsed_json(read_whole(path), f"costs {path}", ConfigError)
        except OSError as error:
            raise ConfigError(f"costs {path}: {error.strerror}") from None
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ConfigError(
                f"costs {path}: it is no file of costs: an object with format {_FORMAT}, "
                "host_ns and device_cycles"
            )
        for name, table in (("host_ns", self.host_ns), ("device_cycles", self.device_cycles)):
            entries = data.get(name, {})
            if not isinstance(entries, dict):
                raise ConfigError(f"costs {path}: {name}: it is no object of numbers")
            wrong = next(
                (key for key, value in entries.items() if not _is_price(value)),
                None,
            )
            if wrong is not None:
                raise ConfigError(
                    f"costs {path}: {name}: {wrong!r} is no whole number from 0 to 2^63 - 1"
                )
            table.update(entries)

    # --- device -----------------------------------------------------------------------------------
    def _programs_ns(self, artifact: Artifact) -> dict[int, int]:
        """By step, of all devices: a simulator runs where it has a program that is not known."""
        found: dict[int, int] = {}
        for simulator in simulators(artifact, self.device):
            keys = {
                step: f"{step.device} #{digest(*step.decisive)}"
                for step in simulator.steps(artifact)
            }
            if any(key not in self.device_cycles for key in keys.values()):
                counted = {run.number: run.cycles for run in simulator.runs(artifact)}
                self.device_cycles.update((key, counted[s.number]) for s, key in keys.items())
            for step, key in keys.items():
                found[step.number] = self.device_cycles[key] * 1000 // step.clock_mhz
        return found

    # --- host -------------------------------------------------------------------------------------
    def _host_ns(self, step: HostStep, artifact: Artifact) -> int:
        key = step_signature(step, artifact.tensors)
        if self.host is not None:
            key = f"{self.host} {key}"
        if key not in self.host_ns:
            self.host_ns[key] = _two_digits(self._found_ns(step, artifact))
        return self.host_ns[key]

    def _found_ns(self, step: HostStep, artifact: Artifact) -> int:
        if self.host is None:
            return self._measured_ns(step, artifact)
        ns = self.host.step_ns(step, artifact)
        if ns is None:
            raise ConfigError(
                f"--host {self.host}: nothing is known of step {step.name!r} ({step.function}): "
                "give its back end cost_cycles, or leave --host out, and it is timed here"
            )
        return ns

    def _measured_ns(self, step: HostStep, artifact: Artifact) -> int:
        if step.function and not has_compiler():
            raise ConfigError(
                "--partition cost: there is no C compiler to time the host's steps with: install "
                "one (Debian: gcc), or name the host (--host cortex-m55@160)"
            )
        return measured_ns(step, artifact, self.device, trust=True)


def _two_digits(ns: int) -> int:
    """123456 -> 120000. At least 1."""
    if ns < 1:
        return 1
    unit = 10 ** max(0, floor(log10(ns)) - 1)
    return int(round(ns / unit) * unit)
