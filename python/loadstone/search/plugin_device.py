# SPDX-License-Identifier: Apache-2.0
"""A plug-in's accelerator as a device of a sweep: its attributes vary as keys of a file do.

In:   the name of a back end of a plug-in, values of its attributes; a compiled network.
Out:  its JSON; what is counted of its programs; energy, area and highest clock of it, by the same
      assumptions as a VTA's.
Next: space.py, evaluate.py and sweep.py ask for them.

The instruction table says which memories there are and what each instruction touches of them, the
accelerator its multipliers (macs, macs_per_cycle). What a plug-in does not say costs nothing here:
without macs its multipliers are free, and its figures compare with none of another device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from inspect import getfile
from math import prod
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import Registry, load_plugins
from loadstone.backend.target import resolve
from loadstone.backend.target_spec import parse_target
from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import decode
from loadstone.isa.form import DRAM, LocalMemory
from loadstone.isa.terms import term_value
from loadstone.runtime.accelerators import accelerators_of
from loadstone.search.assumptions import (
    CONTROL_BITS,
    MAC_BITS,
    MOST_LEVELS,
    Assumptions,
    path_limit_mhz,
    sram_pj_per_byte,
)

__all__ = [
    "COUNTED",
    "accelerator_of",
    "device_file",
    "is_plugin",
    "plugin_area_mm2",
    "plugin_base",
    "plugin_counts",
    "plugin_energy_uj",
    "plugin_limit_mhz",
    "plugin_sources",
    "plugin_target",
    "registry_of",
]

#: Key of the JSON that names the back end.
_PLUGIN = "accelerator"
#: What is counted in whole numbers; `memories` holds bytes by the memory's name besides.
COUNTED = ("macs", "read", "write")


def is_plugin(device: JsonObject) -> bool:
    """Whether the JSON of a device is that of a plug-in's accelerator."""
    return _PLUGIN in device


@lru_cache(maxsize=8)
def registry_of(folders: tuple[str, ...]) -> Registry:
    """In a worker, too: what a plug-in defines cannot be sent."""
    return load_plugins(folders)


def plugin_sources(registry: Registry) -> str:
    """A digest of the plug-ins' files: other ones may make other programs."""
    state = sha256()
    for backend in registry.backends.values():
        state.update(Path(getfile(backend)).read_bytes())
    return state.hexdigest()[:16]


def plugin_base(name: str, registry: Registry) -> JsonObject:
    """With the defaults of all attributes."""
    backend = registry.backends[name]
    values = {entry.name: entry.default for entry in backend.target_attributes}
    return {"name": name, _PLUGIN: name, **values}


def plugin_target(device: JsonObject) -> str:
    """As `loadstone compile --target` takes it."""
    left = ("name", "description", _PLUGIN)
    words = [f"-{key}={_word(value)}" for key, value in device.items() if key not in left]
    return " ".join([str(device[_PLUGIN]), *words])


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def device_file(device: JsonObject) -> JsonObject:
    """What `loadstone compile --target` takes as a file."""
    return parse_target(plugin_target(device)).to_json() if is_plugin(device) else device


def accelerator_of(device: JsonObject, registry: Registry) -> Accelerator:
    """Raises ConfigError for a back end without instructions, TargetError for a value that an
    attribute does not have."""
    (backend,) = resolve(plugin_target(device), registry).backends
    found = backend.accelerator
    if found is None:
        raise ConfigError(
            f"sweep: {device[_PLUGIN]} has no instruction table, so that nothing of it is simulated"
        )
    return found


# --- what is counted ------------------------------------------------------------------------------
def plugin_counts(artifact: Artifact) -> JsonObject:
    """Of one run of all programs: multiply-accumulates, bytes of DRAM, bytes by memory."""
    known = accelerators_of(artifact)
    macs = read = write = 0
    memories: dict[str, int] = {}
    for program in artifact.programs:
        made = known[program.device]
        forms, sizes = made.table.by_name, _row_bytes(made)
        for insn in decode(made.table, program.instructions):
            values = {k: v for k, v in insn.fields.items() if isinstance(v, int)}
            macs += term_value(made.macs.get(insn.name, 0), values)
            for reach in forms[insn.name].reaches:
                if reach.span(values) <= 0:
                    continue
                places = term_value(reach.extent, values) * prod(n for n, _ in reach.turns(values))
                if reach.memory != DRAM:
                    size = places * sizes[reach.memory]
                    memories[reach.memory] = memories.get(reach.memory, 0) + size
                elif reach.writes:
                    write += places
                else:
                    read += places
    return {"macs": macs, "read": read, "write": write, "memories": memories}


def _row_bytes(made: Accelerator) -> dict[str, int]:
    return {name: size // memory.rows for name, size, memory in _memories(made)}


def _memories(made: Accelerator) -> Sequence[tuple[str, int, LocalMemory]]:
    return [(m.name, m.rows * m.lanes * np.dtype(m.dtype).itemsize, m) for m in made.table.memories]


# --- what it costs --------------------------------------------------------------------------------
def _flipflops(made: Accelerator) -> int:
    return CONTROL_BITS + MAC_BITS * made.macs_per_cycle


def plugin_energy_uj(
    counts: JsonObject, made: Accelerator, a: Assumptions, cycles: int
) -> Mapping[str, float]:
    """Microjoules by part, as assumptions.energy_uj."""
    sizes = {name: size for name, size, _ in _memories(made)}
    moved = counts["memories"]
    sram_pj = sum(moved[name] * sram_pj_per_byte(sizes[name]) for name in moved)
    return {
        "multipliers": counts["macs"] * a.int8_mac_pj / 1e6,
        "alu": 0.0,
        "scratchpads": sram_pj * a.sram_scale / 1e6,
        "dram": (counts["read"] + counts["write"]) * a.dram_pj_per_byte / 1e6,
        "clock": cycles * _flipflops(made) * a.flipflop_fj / 1e9,
    }


def plugin_area_mm2(made: Accelerator, a: Assumptions) -> Mapping[str, float]:
    """Square millimetres by part, as assumptions.area_mm2."""
    memories = sum(size for _, size, _ in _memories(made))
    return {
        "multipliers": made.macs_per_cycle * a.int8_mac_um2 / 1e6,
        "alu": 0.0,
        "scratchpads": memories * a.sram_um2_per_byte / 1e6,
        "registers": _flipflops(made) * a.flipflop_um2 / 1e6,
        "queues": 0.0,
    }


def plugin_limit_mhz(made: Accelerator, a: Assumptions) -> float:
    """The highest clock, as assumptions.clock_limit_mhz."""
    largest = max((size for _, size, _ in _memories(made)), default=1)
    return path_limit_mhz(MOST_LEVELS, largest, a)
