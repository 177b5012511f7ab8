# SPDX-License-Identifier: Apache-2.0
"""A space of devices: which keys of a device's file vary, and over which values.

In:   SPACE.yaml.
Out:  a Space: its axes, and the device at a point of it, as the JSON of a device's file.
Next: sampling.py draws points; evaluate.py compiles for them.

    base: vtaq-1x16x16                  a device's name or file; a list of them is an axis
    device:                             a key of the device's file -> the values that it may have
      LOG_BLOCK: [3, 4, 5]
      LOG_WGT_BUFF_SIZE: [16, 18]
      bus_bits: [64, 128]
      timing.read_latency_cycles: [20, 100]
      capability.depthwise: [false, true]    one of them; the others as the base has them
    options:                            of `loadstone compile` -> values
      strategy: [eager, cost]
    assumptions:                        constants of the models of energy and area
      dram_pj_per_byte: 60
    host: cortex-m55@160                whose steps count, too; without it they are left out

A base may also be a plug-in's back end, whose attributes are the keys (plugin_device.py).

A point is an index on each axis. A space is a plain product: an invalid device is detected when its
point is converted to one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path

from loadstone.backend.plugins import Registry
from loadstone.errors import ConfigError
from loadstone.files import JsonObject, JsonValue, read_whole
from loadstone.partition.cost.hosts import stated_host
from loadstone.search.assumptions import Assumptions, assumptions_of
from loadstone.search.plugin_device import is_plugin, plugin_base
from loadstone.vta.device.hw_config import builtin_timing, load_config
from loadstone.vta.isa.spec import Capability

__all__ = ["MAX_POINTS", "Point", "Space", "SpaceAxis", "read_space"]

#: Points of a grid; more are drawn from (--search random, pareto).
MAX_POINTS = 1_000_000
_KEYS = ("base", "device", "options", "assumptions", "host")
_TIMING, _CAPABILITY = "timing.", "capability."
#: The table with the cycles of capabilities that the first generation lacks.
_SECOND = "vtaq2-rtl"
#: Options of compile() that a space may vary, and their values.
_OPTIONS = {"strategy": ("eager", "cost")}

#: An index on each axis.
Point = tuple[int, ...]


@dataclass(frozen=True)
class SpaceAxis:
    """One thing that varies. group: base, device or options."""

    group: str
    name: str
    values: tuple[JsonValue, ...]


@dataclass(frozen=True)
class Space:
    """All devices and options that a sweep may look at. folder: in which files of devices are
    named. host: NAME@MHZ, whose steps count as well; empty: the host is left out. plugins: back
    ends whose names may be bases."""

    axes: tuple[SpaceAxis, ...]
    assumptions: Assumptions = field(default_factory=Assumptions)
    folder: Path = Path()
    host: str = ""
    plugins: Registry = field(default_factory=Registry)

    @property
    def points(self) -> int:
        """How many there are."""
        return prod(len(axis.values) for axis in self.axes)

    def at(self, number: int) -> Point:
        """The point of a number in [0, points); the last axis varies fastest."""
        point = []
        for axis in reversed(self.axes):
            number, index = divmod(number, len(axis.values))
            point.append(index)
        return tuple(reversed(point))

    def settings(self, point: Point) -> dict[str, JsonValue]:
        """Name of an axis -> its value there."""
        return {a.name: a.values[k] for a, k in zip(self.axes, point, strict=True)}

    def options(self, point: Point) -> dict[str, JsonValue]:
        """Options of compile()."""
        pairs = zip(self.axes, point, strict=True)
        return {a.name: a.values[k] for a, k in pairs if a.group == "options"}

    def base(self, name: str) -> JsonObject:
        """The JSON of a base, with every key."""
        if name in self.plugins.backends:
            return plugin_base(name, self.plugins)
        found: JsonObject = json.loads(_base(name, self.folder))
        return found

    def device(self, point: Point) -> JsonObject:
        """The device as the JSON of its file; its name is made of what it holds, so that equal
        devices have equal names."""
        data: JsonObject = {}
        switches: dict[str, bool] = {}
        for axis, index in zip(self.axes, point, strict=True):
            value = axis.values[index]
            if axis.group == "base":
                data = self.base(str(value))
            elif axis.group == "device" and axis.name.startswith(_TIMING):
                constant = {"value": value, "source": "a value of the sweep's space"}
                data["timing"] = {**data["timing"], axis.name.removeprefix(_TIMING): constant}
            elif axis.group == "device" and axis.name.startswith(_CAPABILITY):
                switches[axis.name.removeprefix(_CAPABILITY)] = bool(value)
            elif axis.group == "device":
                data[axis.name] = value
        if switches:
            _switch(data, switches)
        if is_plugin(data):
            data.pop("timing", None)
        base = str(data.pop("name"))
        data.pop("description", None)
        text = json.dumps(data, sort_keys=True)
        name = f"{base}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return {"name": name, "description": f"{base} as a sweep varied it", **data}


def _switch(data: JsonObject, switches: Mapping[str, bool]) -> None:
    """Gives a device capabilities, with the cycles that were measured of them, or takes them."""
    own = [name for name in data.get("capabilities", []) if switches.get(name, True)]
    own += [name for name, wanted in switches.items() if wanted and name not in own]
    measured = {
        name: {"value": c.value, "source": c.source} for name, c in builtin_timing(_SECOND).items()
    }
    data["capabilities"] = own
    data["timing"] = {**measured, **data.get("timing", {})}


@lru_cache(maxsize=64)
def _base(name: str, folder: Path) -> str:
    """A device's JSON with every key. The depth of the micro-op scratchpad follows from its size,
    unless the file says otherwise."""
    file = folder / name
    config = load_config(file if file.is_file() else name)
    data = config.to_json()
    if config == replace(config, uop_depth=0):
        del data["uop_depth"]
    return json.dumps(data)


def read_space(path: str | Path, plugins: Registry | None = None) -> Space:
    """plugins: back ends that may be bases. Raises ConfigError for what is no space, and for names
    that nothing has."""
    import yaml

    try:
        data = yaml.safe_load(read_whole(path))
    # SafeLoader lets through what its readers of dates, numbers and truths raise
    except (yaml.YAMLError, ValueError, RecursionError, KeyError, AttributeError) as error:
        line = " ".join(str(error).split())
        raise ConfigError(f"{path}: not YAML: {line}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds a {type(data).__name__}, not keys such as {_KEYS[0]}")
    for key in data:
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key {key!r}; known are {', '.join(_KEYS)}")
    if "base" not in data:
        raise ConfigError(f"{path}: key base is missing: a device's name or file to start from")
    folder = Path(path).parent
    axes = [SpaceAxis("base", "base", _values(path, "base", data["base"]))]
    for group in ("device", "options"):
        for name, values in _mapping(path, group, data.get(group)).items():
            axes.append(SpaceAxis(group, str(name), _values(path, str(name), values)))
    space = Space(
        tuple(axes),
        assumptions_of(str(path), _mapping(path, "assumptions", data.get("assumptions"))),
        folder,
        _host(path, data.get("host", "")),
        plugins or Registry(),
    )
    _check(path, space)
    return space


def _host(path: str | Path, text: JsonValue) -> str:
    if text:
        try:
            stated_host(str(text))
        except ConfigError as error:
            raise ConfigError(f"{path}: {str(error).replace('--host', 'host')}") from None
    return str(text or "")


def _mapping(path: str | Path, key: str, value: JsonValue) -> Mapping[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {key} is a {type(value).__name__}, not keys with values")
    return value


def _values(path: str | Path, name: str, values: JsonValue) -> tuple[JsonValue, ...]:
    """A list of values, or a single one; capabilities are lists themselves."""
    single = name == "capabilities" and isinstance(values, list)
    if not isinstance(values, list) or (single and not any(isinstance(v, list) for v in values)):
        values = [values]
    texts = [json.dumps(value, sort_keys=True, default=str) for value in values]
    if not values or len(set(texts)) != len(texts):
        raise ConfigError(f"{path}: {name} has no values, or one of them twice")
    return tuple(values)


def _check(path: str | Path, space: Space) -> None:
    """Names that nothing has, in one line instead of in every row."""
    known = _known(space)
    for axis in space.axes:
        if axis.group == "device" and axis.name not in known:
            raise ConfigError(
                f"{path}: device has no key {axis.name!r}; known are {', '.join(sorted(known))}"
            )
        if axis.group == "options":
            _check_option(path, axis)
        if axis.name.startswith(_CAPABILITY) and any(type(v) is not bool for v in axis.values):
            raise ConfigError(f"{path}: {axis.name} is true or false, or a list of both")
    if space.points > 1 << 62:
        raise ConfigError(f"{path}: {space.points} points are more than anybody can number")


def _check_option(path: str | Path, axis: SpaceAxis) -> None:
    if axis.name not in _OPTIONS:
        raise ConfigError(f"{path}: option {axis.name!r} is not one of {', '.join(_OPTIONS)}")
    allowed = _OPTIONS[axis.name]
    for value in axis.values:
        if value not in allowed:
            raise ConfigError(f"{path}: {axis.name}: {value!r} is not one of {', '.join(allowed)}")


def _known(space: Space) -> set[str]:
    """Keys of a device's file, and of its timing table."""
    names: set[str] = set()
    for name in space.axes[0].values:
        data = space.base(str(name))
        if is_plugin(data):
            names |= {*data} - {"name", "accelerator"}
            continue
        names |= {*data, "uop_depth"} - {"name", "description", "timing"}
        names |= {_TIMING + constant for constant in data["timing"]}
        names |= {_CAPABILITY + name.lower() for name in Capability.__members__}
    return names
