"""What to compile for: the table of accelerators, and how a target becomes back ends.

In:   what target_spec.parse_target takes, or a HwConfig.
Out:  a Target: back ends in order of preference, the device that executes their programs, the spec.
Next: compiler.py partitions among the back ends; what none takes stays on the host.

An accelerator has typed attributes with defaults: `loadstone target NAME` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadstone.backend import Backend
from loadstone.errors import ConfigError, TargetError
from loadstone.target_spec import ALIASES, Entry, TargetSpec, parse_target
from loadstone.vta.backend import VtaBackend
from loadstone.vta.hw_config import HwConfig, device_names, load_config
from loadstone.vta.isa.spec import Memory

__all__ = ["Attribute", "Target", "accelerators", "attributes_of", "resolve"]


@dataclass(frozen=True)
class Attribute:
    """One attribute of an accelerator. default: also says the type: int, str or bool."""

    name: str
    default: int | str | bool
    doc: str

    def value(self, text: str, accelerator: str) -> int | str | bool:
        """The typed value. Raises TargetError naming what is allowed."""
        if isinstance(self.default, bool):
            if text not in ("true", "false"):
                raise TargetError(f"target: {accelerator} -{self.name}={text} is neither true nor false")
            return text == "true"
        if isinstance(self.default, int):
            try:
                return int(text, 0)
            except ValueError:
                raise TargetError(f"target: {accelerator} -{self.name}={text} is not an integer") from None
        return text


@dataclass(frozen=True)
class Target:
    """backends: earlier ones are asked first. device: its HwConfig. align_bytes: what DRAM tensors are aligned to."""

    backends: tuple[Backend, ...]
    device: Any
    align_bytes: int
    spec: TargetSpec


def accelerators() -> list[str]:
    """Names that an entry of a target may have, besides paths of device files."""
    return device_names()


def attributes_of(name: str) -> tuple[Attribute, ...]:
    """The attributes of an accelerator, with its own defaults. Raises TargetError for an unknown one."""
    config = _config(name)
    return (
        Attribute("clock_mhz", config.clock_mhz, "clock in MHz: seconds and GOPS in reports"),
        Attribute("bus_bits", config.bus_bits, "width of the DRAM bus: tiling and cycles"),
    )


def resolve(target: str | Path | Mapping[str, Any] | Sequence[str] | TargetSpec | HwConfig) -> Target:
    """Raises TargetError or ConfigError, one line with what is wrong and what is allowed."""
    if isinstance(target, HwConfig):
        return _of(target, TargetSpec((Entry(target.name),)))
    spec = target if isinstance(target, TargetSpec) else parse_target(target)
    if len(spec.accelerators) > 1:
        names = " and ".join(entry.name for entry in spec.accelerators)
        raise TargetError(f"target '{spec}': {names} are devices with programs of their own, and an artifact holds those of one")
    entry = spec.accelerators[0]
    known = {attribute.name: attribute for attribute in attributes_of(entry.name)}
    unknown = next((name for name in entry.attributes if name not in known), None)
    if unknown is not None:
        raise TargetError(f"target: {entry.name} has no attribute {unknown!r}; it has {', '.join(known)}")
    values: dict[str, Any] = {name: known[name].value(text, entry.name) for name, text in entry.attributes.items()}
    return _of(replace(_config(entry.name), **values), spec)


def _config(name: str) -> HwConfig:
    try:
        return load_config(name)
    except ConfigError as error:
        if name in device_names() or Path(name).is_file():
            raise
        known = ", ".join([*accelerators(), *ALIASES])
        raise TargetError(f"target: {name!r} is no accelerator; known are {known}, and JSON files of devices") from error


def _of(config: HwConfig, spec: TargetSpec) -> Target:
    return Target((VtaBackend(config),), config, max(config.tile_bytes(memory) for memory in Memory), spec)
