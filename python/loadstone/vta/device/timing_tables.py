# SPDX-License-Identifier: Apache-2.0
"""Timing constants of a device: tables in devices/timing, and changes of them in a device's file.

In:   the name of a table, or the object under a device file's key `timing`.
Out:  constants by name, each with its source.
Next: hw_config.py keeps them; stream/cost.py and the simulator count cycles with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources

from loadstone.backend.device import TimingConstant
from loadstone.errors import ConfigError
from loadstone.files import JsonValue

__all__ = [
    "BURST",
    "EXTRA",
    "WORST_EXTRA",
    "builtin_timing",
    "compact_timing",
    "table_names",
    "timing_table",
]

#: Where bursts end; cycles before each that is read, and the most that these can be.
BURST, EXTRA = "burst_boundary_bytes", "read_burst_extra_cycles"
WORST_EXTRA = "worst_burst_extra_cycles"


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
        if key == "base":
            continue
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("value"), int)
            or not isinstance(entry.get("source"), str)
        ):
            raise ConfigError(
                f"device {device}: timing.{key} must be "
                f'{{"value": integer, "source": "where it comes from"}}'
            )
        if not 0 <= entry["value"] < 1 << 31:
            raise ConfigError(
                f"device {device}: timing.{key}={entry['value']} is outside [0, {(1 << 31) - 1}]"
            )
        result[key] = TimingConstant(entry["value"], entry["source"])
    return result


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
