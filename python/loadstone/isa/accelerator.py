# SPDX-License-Identifier: Apache-2.0
"""An accelerator described: its instructions, what they mean, how long they take, its registers.

In:   a plug-in's table, its functions, its timing.
Out:  Accelerator, one value for all that follow; the factories by which a runtime makes it from
      what an artifact says.
Next: machine.py simulates it; backend/program.py makes its programs; runtime/accelerators.py opens
      it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from loadstone.errors import ConfigError
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Term, fields_of
from loadstone.printable import PLAIN_NAME, is_plain_name

if TYPE_CHECKING:
    from loadstone.isa.native_page import RegisterPage
    from loadstone.isa.state import MachineState

__all__ = ["Accelerator", "Meaning", "Port", "accelerator_named", "register_accelerator"]

#: What an instruction does: to the memories of a machine, with its fields by name.
Meaning: TypeAlias = "Callable[[MachineState, Mapping[str, int]], None]"


@dataclass(frozen=True)
class Port:
    """The way to DRAM, one transfer at a time. Each contiguous run of an instruction is bursts of
    at most burst_bytes; latency_cycles pass before the first."""

    bytes_per_cycle: int = 8
    burst_bytes: int = 256
    burst_cycles: int = 1
    latency_cycles: int = 20


@dataclass(frozen=True)
class Accelerator:
    """meaning: by instruction; one that sets registers, and a no-op, need none. attributes:
    of the back end, by which it is made again. port: None where DRAM costs nothing. queue: how many
    instructions wait in front of each unit; 0: one instruction works at a time.

    page: makes the register page that the simulator shows, of the device's CONFIG_HASH; None for
    the native one. driver: a C file that defines `const lds_register_block NAME_registers` for such
    a page, or `int NAME_refuse(const lds_insn_seen *)`, or both.

    macs: by instruction, the multiply-accumulates that it executes, as a term of its fields and of
    registers that it reads ("rows*256"). macs_per_cycle: the most in a cycle; 0 where nobody says.
    Reports and searches use both: utilisation, energy, area.
    """

    name: str
    table: InstructionTable
    meaning: Mapping[str, Meaning]
    attributes: Mapping[str, int | str] = field(default_factory=dict)
    port: Port | None = None
    queue: int = 0
    clock_mhz: int = 100
    page: Callable[[int], RegisterPage] | None = None
    driver: Path | None = None
    macs: Mapping[str, Term] = field(default_factory=dict)
    macs_per_cycle: int = 0

    def __post_init__(self) -> None:
        if not is_plain_name(self.name):
            raise ConfigError(f"accelerator {self.name!r}: a name is {PLAIN_NAME}")
        for form in self.table.forms:
            silent = bool(form.keeps or form.sets) or form.name in self.table.noops
            if form.name not in self.meaning and not silent:
                raise ConfigError(f"accelerator {self.name}: {form.name} has no meaning")
        self._check_macs()
        begun = [one.name for one in self.table.address_registers if one.regions]
        if begun:
            raise ConfigError(
                f"accelerator {self.name}: address register {begun[0]} begins at regions, which "
                "only VTA's driver sets: let an instruction set it (Keep)"
            )
        if self.table.queues and not self.queue:
            raise ConfigError(
                f"accelerator {self.name}: queues of tokens, and queue=0: say how many "
                "instructions wait in front of each unit"
            )

    def _check_macs(self) -> None:
        for name, term in self.macs.items():
            known = self.table.by_name.get(name)
            if known is None:
                raise ConfigError(f"accelerator {self.name}: macs: there is no instruction {name}")
            said = {*(f.name for f in known.fields), *self.table.read_registers[name]}
            lost = [one for one in fields_of(term) if one not in said]
            if lost:
                raise ConfigError(
                    f"accelerator {self.name}: macs of {name}: {term!r}: it has no field "
                    f"{lost[0]}, and reads no such register"
                )


_FACTORIES: dict[str, Callable[[Mapping[str, int | str]], Accelerator | None]] = {}


def register_accelerator(
    name: str, make: Callable[[Mapping[str, int | str]], Accelerator | None]
) -> None:
    """Makes the accelerator of a back end known to the runtime. make: of its attributes."""
    _FACTORIES[name] = make


def accelerator_named(name: str, attributes: str, fingerprint: bytes) -> Accelerator | None:
    """What an artifact's program was made for; None where no plug-in of that name is loaded.
    Raises ConfigError when the plug-in describes another device today."""
    if name not in _FACTORIES:
        return None
    try:
        values = json.loads(attributes)
        plain = isinstance(values, dict) and all(isinstance(v, int | str) for v in values.values())
    except ValueError:
        plain = False
    found = _FACTORIES[name](values) if plain else None
    if found is None or found.table.fingerprint != fingerprint:
        raise ConfigError(
            f"accelerator {name}: the plug-in's instructions are not those that the artifact was "
            "compiled for: compile the model again, or load the plug-in of then"
        )
    return found
