# SPDX-License-Identifier: Apache-2.0
"""The table of built-in devices and of the back ends that compile for them.

In:   a device's name, its file, or the fingerprint in an artifact.
Out:  a Device; the attributes that a target may give it; its back end.
Next: target.py makes a target of it, runtime/device.py opens it.

This is the one file outside vta/, simulator/ and the commands that imports vta/. The back end
itself is imported when a target needs it: it compiles, and takes TVM, which a board has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from loadstone.backend.device import NO_DEVICE, VTA_FINGERPRINT_BYTES, Device
from loadstone.errors import ConfigError
from loadstone.files import parsed_json
from loadstone.vta.device.hw_config import TARGET_FIELDS, HwConfig, device_names, load_config

if TYPE_CHECKING:
    from loadstone.backend.interface import Attribute, Backend

__all__ = [
    "BuiltinDevice",
    "attributes_of_device",
    "backend_for",
    "device_names",
    "device_of",
    "further_device",
    "load_config",
]

#: What load_config gives: the class of all built-in devices, and of those read from a JSON file.
BuiltinDevice = HwConfig


def device_of(name: str, fingerprint: bytes) -> Device | None:
    """The built-in device of that name and fingerprint, else the first of the same fingerprint;
    NO_DEVICE where an artifact says that it has none."""
    if (name, fingerprint) == (NO_DEVICE.name, NO_DEVICE.fingerprint()):
        return NO_DEVICE
    for entry in sorted(device_names(), key=lambda known: known != name):
        config = load_config(entry)
        if config.fingerprint() == fingerprint:
            return config
    return None


def further_device(name: str, attributes: str, fingerprint: bytes) -> HwConfig:
    """The further VTA that an artifact's program is for. attributes: the device as JSON, an empty
    object for a built-in one. Raises ConfigError."""
    data = parsed_json(attributes.encode(), f"device {name}", ConfigError)
    if not isinstance(data, dict):
        raise ConfigError(f"device {name}: what the artifact says of it is no object")
    found = load_config(data) if data else load_config(name)
    if found.name != name or found.fingerprint() != fingerprint[:VTA_FINGERPRINT_BYTES]:
        raise ConfigError(
            f"device {name} is not the one that the artifact was compiled for: compile it again"
        )
    return found


def attributes_of_device(device: HwConfig) -> tuple[Attribute, ...]:
    """What a target may say of the device, with its own values as defaults."""
    from loadstone.backend.interface import Attribute

    return tuple(Attribute(name, getattr(device, name), doc) for name, doc in TARGET_FIELDS.items())


def backend_for(
    device: HwConfig, values: Mapping[str, Any] = MappingProxyType({}), *, further: bool = False
) -> Backend:
    """The back end that compiles for the device. values: of its attributes, typed. further: the
    artifact's own device is another VTA. Raises ConfigError for one that the device cannot have."""
    from loadstone.vta.backend import VtaBackend

    return VtaBackend(replace(device, **values), further=further)
