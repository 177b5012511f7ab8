# SPDX-License-Identifier: Apache-2.0
"""VTA's devices as a family, with the interface that backend/builtin.py defines for such families.

In:   a device's name or file; attribute values from a target.
Out:  FAMILY: HwConfigs, their attributes, their back end; SIMULATORS of their programs.
Next: backend/builtin.py and simulator/programs.py find them by name.

The back end is imported on first use, because it needs TVM, which a board lacks; so is the
simulator, which commands that only read an artifact do not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from loadstone.backend.builtin import AttributeValue, DeviceFamily
from loadstone.backend.device import Device
from loadstone.errors import ConfigError
from loadstone.files import JsonValue
from loadstone.vta.device.cores import BUSES, MOST_CORES, cores_of
from loadstone.vta.device.hw_config import (
    TARGET_FIELDS,
    HwConfig,
    config_of,
    device_names,
    load_config,
)

if TYPE_CHECKING:
    from loadstone.artifact.format import Artifact
    from loadstone.backend.interface import Attribute, Backend
    from loadstone.simulator.interface import ProgramSimulator
    from loadstone.simulator.programs import SimulatorFamily

__all__ = ["FAMILY", "SIMULATORS"]


class _Vta:
    """Every VTA, VTA-Q and VTA-B."""

    def device_names(self) -> Sequence[str]:
        return device_names()

    def load_config(self, source: str | Path | Mapping[str, JsonValue]) -> HwConfig:
        return load_config(source)

    def is_device(self, thing: object) -> TypeGuard[Device]:
        return isinstance(thing, HwConfig)

    def attributes(self, device: Device) -> tuple[Attribute, ...]:
        from loadstone.backend.interface import Attribute

        own = (Attribute(name, getattr(device, name), d) for name, d in TARGET_FIELDS.items())
        return (
            *own,
            Attribute("count", 1, "equal devices for one network", range(1, MOST_CORES + 1)),
            Attribute("bus", BUSES[0], "to the memory: one each, or one for all of them", BUSES),
        )

    def backend(
        self, device: Device, values: Mapping[str, AttributeValue], further: bool
    ) -> Backend:
        from loadstone.vta.backend import VtaBackend

        assert isinstance(device, HwConfig)
        changed: dict[str, Any] = dict(values)
        count, bus = changed.pop("count", 1), changed.pop("bus", BUSES[0])
        own = replace(device, **changed)
        if count > 1 and further:
            raise ConfigError(
                f"device {device.name}: count={count}: only the first VTA of a target can be "
                "several: name it first"
            )
        return VtaBackend(own, further=further, cores=cores_of(own, count, bus=bus))


class _Simulators:
    """Of all of them: the one in C++."""

    def of_device(self, device: Device, number: int) -> ProgramSimulator:
        from loadstone.vta.simulator.programs import VtaSimulator

        assert isinstance(device, HwConfig)
        return VtaSimulator(device, number)

    def of_artifact(self, artifact: Artifact) -> ProgramSimulator:
        from loadstone.vta.simulator.programs import VtaSimulator

        return VtaSimulator(config_of(artifact.fingerprint))


FAMILY: DeviceFamily = _Vta()
SIMULATORS: SimulatorFamily = _Simulators()
