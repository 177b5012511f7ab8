# SPDX-License-Identifier: Apache-2.0
"""Timing constants of a device: tables in devices/timing, and changes of them in a device's file.

In:   the name of a table, or the object under a device file's key `timing`.
Out:  constants by name, each with its source.
Next: hw_config.py keeps them; stream/cost.py and the simulator count cycles with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import resources

from loadstone.backend.device import TimingConstant
from loadstone.errors import ConfigError
from loadstone.files import JsonValue

__all__ = [
    "BURST",
    "EXTRA",
    "FETCH_SPLITS",
    "WORST_EXTRA",
    "builtin_timing",
    "compact_timing",
    "table_names",
    "timing_table",
]

#: Where bursts end; cycles before each that is read, and the most that these can be.
BURST, EXTRA = "burst_boundary_bytes", "read_burst_extra_cycles"
WORST_EXTRA = "worst_burst_extra_cycles"
#: Whether fetches end where bursts do.
FETCH_SPLITS = "fetch_splits"
_MOST = (1 << 31) - 1
#: Of constants that count something else than cycles: the least, and the most that the simulator
#: keeps apart (hw_sim/read_channel.h, hw_sim/device_timing.cc).
_LIMITS = {
    "burst_boundary_bytes": (1, 1 << 30),
    "burst_max_beats": (1, 256),
    "fetch_batch_instructions": (1, _MOST),
    "fetch_splits": (0, 1),
    "loads_in_flight": (1, 64),
    "pad_tiles_per_cycle": (1, _MOST),
    "read_bursts_outstanding": (1, 1024),
    "read_requests_in_flight": (1, 1024),
    "stage_queue_entries": (1, _MOST),
}
#: The simulator takes their logarithms.
_POWERS_OF_2 = ("burst_boundary_bytes", "burst_max_beats")


def builtin_timing(name: str) -> dict[str, TimingConstant]:
    """One of our timing tables, devices/timing/NAME.json. Raises ConfigError."""
    return timing_table(name, name)


def table_names() -> list[str]:
    """The names that `builtin_timing` takes, sorted."""
    folder = resources.files("loadstone.vta.devices").joinpath("timing")
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def timing_table(table: JsonValue, device: str) -> dict[str, TimingConstant]:
    """A table by name (devices/timing/NAME.json), or a dict; a dict's key `base` names a table to
    start from."""
    if isinstance(table, str):
        try:
            file = resources.files("loadstone.vta.devices") / "timing" / f"{table}.json"
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError):  # a name that no file can have
            raise ConfigError(
                f"device {device}: timing table {table!r} is not one of ours "
                f"({', '.join(table_names())})"
            ) from None
        table = json.loads(text)
    if not isinstance(table, dict):
        raise ConfigError(
            f"device {device}: timing is a {type(table).__name__}, not a table's name or an "
            "object of constants"
        )
    result = timing_table(table["base"], device) if "base" in table else {}
    for key, entry in table.items():
        if key != "base":
            result[key] = _constant(key, entry, device)
    return result


def _constant(name: str, entry: JsonValue, device: str) -> TimingConstant:
    value = entry.get("value") if isinstance(entry, dict) else None
    source = entry.get("source") if isinstance(entry, dict) else None
    where = f"device {device}: timing.{name}"
    if not isinstance(value, int) or isinstance(value, bool) or not isinstance(source, str):
        raise ConfigError(f'{where} must be {{"value": integer, "source": "where it comes from"}}')
    if name not in _names():
        near = get_close_matches(name, _names(), 1)
        meant = f"; {near[0]} is meant?" if near else ""
        raise ConfigError(f"{where} is no constant of the timing model (docs/timing.md){meant}")
    least, most = _LIMITS.get(name, (0, _MOST))
    if not least <= value <= most:
        raise ConfigError(f"{where}={value} is outside [{least}, {most}]")
    if name in _POWERS_OF_2 and value & (value - 1):
        raise ConfigError(f"{where}={value} is not a power of 2")
    return TimingConstant(value, source)


@cache
def _names() -> list[str]:
    """Of all constants: each stands in one of our tables, at least (tests/test_tables_in_c.py)."""
    folder = resources.files("loadstone.vta.devices") / "timing"
    tables = (folder / f"{name}.json" for name in table_names())
    each = (json.loads(table.read_text(encoding="utf-8")) for table in tables)
    return sorted({name for table in each for name in table} - {"base"})


def compact_timing(timing: Mapping[str, TimingConstant]) -> JsonValue:
    """What timing_table makes the same constants of: the name of a table, or what differs from the
    nearest one."""
    shortest: JsonValue = _entries(timing)
    for name in table_names():
        base = builtin_timing(name)
        if base.keys() <= timing.keys():
            own = {key: entry for key, entry in timing.items() if base.get(key) != entry}
            said: JsonValue = {"base": name, **_entries(own)} if own else name
            shortest = min(shortest, said, key=lambda one: len(json.dumps(one)))
    return shortest


def _entries(timing: Mapping[str, TimingConstant]) -> JsonValue:
    return {name: {"value": c.value, "source": c.source} for name, c in timing.items()}
