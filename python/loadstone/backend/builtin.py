# SPDX-License-Identifier: Apache-2.0
"""The devices that come with Loadstone, and the back end that compiles for them.

In:   a device's name, its file, or the fingerprint in an artifact.
Out:  a Device; the attributes that a target may give it; its back end.
Next: target.py makes a target of it, runtime/device.py opens it; vta/builtin.py is what is asked.

Who describes them is found by name, as a plug-in is, and so stands above all that ask here. The
back end itself is imported when a target needs it: it compiles, and takes TVM, which a board has
not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from loadstone.backend.device import NO_DEVICE, Device, ProgramDevice
from loadstone.errors import ConfigError
from loadstone.files import JsonValue, parsed_json

if TYPE_CHECKING:
    from loadstone.backend.interface import Attribute, Backend

__all__ = [
    "FAMILY_MODULE",
    "AttributeValue",
    "DeviceFamily",
    "attributes_of_device",
    "backend_for",
    "device_names",
    "device_of",
    "further_device",
    "is_builtin",
    "load_config",
]

#: What an attribute of a target can be.
AttributeValue: TypeAlias = int | str | bool
#: The module whose FAMILY the devices are of, and whose SIMULATORS run their programs.
FAMILY_MODULE = "loadstone.vta.builtin"


class DeviceFamily(Protocol):
    """Devices of one kind, by name or from JSON files, and the back end for all of them."""

    def device_names(self) -> Sequence[str]:
        """Of those that are built in."""

    def load_config(self, source: str | Path | Mapping[str, JsonValue]) -> Device:
        """A device by built-in name, by path to a JSON file, or from a dict. Raises ConfigError."""

    def is_device(self, thing: object) -> TypeGuard[Device]:
        """Whether load_config makes such."""

    def attributes(self, device: Device) -> tuple[Attribute, ...]:
        """What a target may say of the device, with its own values as defaults."""

    def backend(
        self, device: Device, values: Mapping[str, AttributeValue], further: bool
    ) -> Backend:
        """The back end for the device. values: of its attributes. further: the artifact's own
        device is another one of the family. Raises ConfigError for values that it cannot have."""


@cache
def _family() -> DeviceFamily:
    family: DeviceFamily = import_module(FAMILY_MODULE).FAMILY
    return family


def device_names() -> Sequence[str]:
    """Of the devices that are built in."""
    return _family().device_names()


def load_config(source: str | Path | Mapping[str, JsonValue]) -> Device:
    """A device by built-in name, by path to a JSON file, or from a dict. Raises ConfigError."""
    return _family().load_config(source)


def is_builtin(thing: object) -> TypeGuard[Device]:
    """Whether it is a device that is built in, or was read from a JSON file."""
    return _family().is_device(thing)


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


def further_device(said: ProgramDevice) -> Device:
    """The VTA that an artifact names. Its attributes are the device as JSON, an
    empty object for a built-in one. Raises ConfigError."""
    name = said.name
    data = parsed_json(said.attributes.encode(), f"device {name}", ConfigError)
    if not isinstance(data, dict):
        raise ConfigError(f"device {name}: what the artifact says of it is no object")
    found = load_config(data) if data else load_config(name)
    if found.name != name or found.fingerprint() != said.fingerprint:
        raise ConfigError(
            f"device {name} is not the one that the artifact was compiled for: compile it again"
        )
    return found


def attributes_of_device(device: Device) -> tuple[Attribute, ...]:
    """What a target may say of the device, with its own values as defaults."""
    return _family().attributes(device)


def backend_for(
    device: Device,
    values: Mapping[str, AttributeValue] = MappingProxyType({}),
    *,
    further: bool = False,
) -> Backend:
    """The back end that compiles for the device. values: of its attributes, typed. further: the
    artifact's own device is another VTA. Raises ConfigError for one that the device cannot have."""
    return _family().backend(device, values, further)
