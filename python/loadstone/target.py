"""What to compile for: the table of built-in back ends, and how a target's name becomes back ends.

In:   a device's name, the path of its JSON file, or a HwConfig.
Out:  a Target: the back ends in order of preference, and the device that executes their programs.
Next: compiler.py partitions among the back ends; what none takes stays on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loadstone.backend import Backend
from loadstone.vta.backend import VtaBackend
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Memory

__all__ = ["Target", "resolve"]


@dataclass(frozen=True)
class Target:
    """backends: earlier ones are asked first. device: its HwConfig. align_bytes: what DRAM tensors are aligned to."""

    backends: tuple[Backend, ...]
    device: Any
    align_bytes: int


def resolve(target: str | HwConfig) -> Target:
    """Raises ConfigError for what names no device."""
    config = target if isinstance(target, HwConfig) else load_config(target)
    return Target((VtaBackend(config),), config, max(config.tile_bytes(memory) for memory in Memory))
