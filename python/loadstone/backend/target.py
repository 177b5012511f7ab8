# SPDX-License-Identifier: Apache-2.0
"""Targets: the table of accelerators, and how a target becomes back ends.

In:   a target as target_spec.parse_target accepts it, or a built-in device; plug-ins.
Out:  a Target: back ends in order of preference, the device that executes their programs, the spec.
Next: compiler.py partitions among the back ends; operators that none takes stay on the host.

An accelerator has typed attributes with defaults: `loadstone target NAME` lists them. It is a
built-in device, or a plug-in. Each artifact names one device, that of the back end whose programs
it holds; where all accelerators of a target are reached through functions, that is NO_DEVICE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, cast

from loadstone.backend.builtin import (
    attributes_of_device,
    backend_for,
    device_names,
    is_builtin,
    load_config,
)
from loadstone.backend.device import NO_DEVICE, Device
from loadstone.backend.interface import Attribute, Backend
from loadstone.backend.plugins import Registry, load_plugins
from loadstone.backend.request import CompileRequest
from loadstone.backend.scope import file_of
from loadstone.backend.target_spec import ALIASES, Entry, TargetSpec, TargetText, parse_target
from loadstone.backend.tvm_external import TvmExternal
from loadstone.errors import BackendError, ConfigError, TargetError, cause_of, suggestion
from loadstone.files import is_file
from loadstone.relax.compat import external_names, has_external
from loadstone.relax.targets import check_llvm_host, target_as_json

__all__ = [
    "Target",
    "TargetSource",
    "accelerators",
    "attributes_of",
    "externals",
    "resolve",
    "with_attributes",
]


@dataclass(frozen=True)
class Target:
    """backends: in order of preference. device: executes the artifact's programs."""

    backends: tuple[Backend, ...]
    device: Device
    spec: TargetSpec

    def asked(self, request: CompileRequest) -> Target:
        """The same target, whose back ends work for a compile with this request."""
        return replace(self, backends=tuple(backend.asked(request) for backend in self.backends))

    def scheme(self) -> str:
        """The scheme by which a float network is quantized for all of them. Raises ConfigError
        where none computes on integers."""
        schemes = {backend.scheme for backend in self.backends}
        if schemes == {"float"}:
            raise ConfigError(
                f"{self.device.name} computes on real numbers: it takes a float model as it is, "
                "and nothing of a quantized one; leave the samples (--data) out"
            )
        return next(
            name for name in ("pow2", "symmetric", "affine") if name in {*schemes, "affine"}
        )

    def refuse_several(self, what: str) -> None:
        """Raises TargetError where a back end's programs are for several equal devices. what: that
        is done for one."""
        for backend in self.backends:
            if backend.device_count > 1:
                raise TargetError(
                    f"target '{self.spec}': count={backend.device_count}: {what} for one device: "
                    "leave -count out"
                )

    @property
    def switch_cycles(self) -> int | None:
        """The cycles that a program may take at most (CompileRequest)."""
        return next((backend.request.switch_cycles for backend in self.backends), None)

    @property
    def per_channel(self) -> bool:
        """Whether a float network's weights may have a scale for each channel on all of them."""
        return all(backend.per_channel for backend in self.backends)


#: What names a target: text, the path of a JSON file, a composite, several texts, or what is ready.
TargetSource: TypeAlias = TargetText | TargetSpec | Device


def accelerators(plugins: Registry | None = None) -> list[str]:
    """The names that an entry of a target may have, besides paths of device files: built-in
    devices, then plug-ins."""
    return [*device_names(), *_known(plugins).backends]


def externals() -> dict[str, str]:
    """TVM's external code generators, which an entry may name as well, and whether this TVM
    contains each."""
    return {
        name: "built in" if has_external(name) else "not built into this TVM"
        for name in external_names()
    }


def attributes_of(name: str, plugins: Registry | None = None) -> tuple[Attribute, ...]:
    """The attributes of an accelerator, with its own defaults. Raises TargetError for an unknown
    one."""
    found = _known(plugins).backends
    if name in found:
        return tuple(found[name].target_attributes)
    if _is_external(name, _known(plugins)):
        return ()
    return attributes_of_device(_config(name, plugins))


def resolve(
    target: TargetSource,
    plugins: Registry | None = None,
) -> Target:
    """target: also a tvm.target.Target of accelerators. plugins: None for the installed ones.

    Raises TargetError or ConfigError, one line with the error and the valid values.
    """
    if is_builtin(target):
        return Target((backend_for(target),), target, TargetSpec((Entry(target.name),)))
    spec = (
        target
        if isinstance(target, TargetSpec)
        else parse_target(target_as_json(target) or cast(TargetText, target))
    )
    known = _known(plugins)
    if spec.host.name == "llvm":
        check_llvm_host(
            spec.host.attributes.get("mtriple", ""), spec.host.attributes.get("mcpu", "")
        )
    backends: list[Backend] = []
    for entry in spec.accelerators:
        own = any(backend.device is not None for backend in backends)
        backends.append(_backend(entry, known, not backends, own))
        backends[-1].host = {"kind": spec.host.name, **spec.host.attributes}
    devices = [backend.device for backend in backends if backend.device is not None]
    _refuse_devices(spec, devices)
    return Target(tuple(backends), devices[0] if devices else NO_DEVICE, spec)


def _refuse_devices(spec: TargetSpec, devices: Sequence[Device]) -> None:
    """Raises for devices that cannot share one artifact's runs or one session."""
    for device in devices[1:]:
        first = devices[0]
        if device.batch != first.batch:
            raise TargetError(
                f"target '{spec}': {first.name} takes {first.batch} samples a run, and "
                f"{device.name} {device.batch}: the devices of a composite take equally many"
            )
    names = [device.name for device in devices]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TargetError(f"target '{spec}': two devices are called {twice}: rename one")


def with_attributes(spec: TargetSpec, values: Mapping[tuple[str, str], str]) -> TargetSpec:
    """The spec with attributes from (accelerator, attribute) -> text. Raises TargetError for an
    attribute whose accelerator is missing or occurs twice."""
    for name, attribute in values:
        entry = next((entry for entry in spec.accelerators if entry.name == name), None)
        if entry is None:
            raise TargetError(
                f"--target-{name}-{attribute}: the target '{spec}' has no accelerator {name}"
            )
        if attribute in entry.attributes:
            raise TargetError(
                f"--target-{name}-{attribute}: the target '{spec}' says -{attribute} already"
            )
    extra = {
        entry.name: {a: text for (name, a), text in values.items() if name == entry.name}
        for entry in spec.accelerators
    }
    return replace(
        spec,
        accelerators=tuple(
            Entry(e.name, {**e.attributes, **extra[e.name]}) for e in spec.accelerators
        ),
    )


def _known(plugins: Registry | None) -> Registry:
    known = plugins if plugins is not None else load_plugins()
    if shadowing := next((name for name in known.backends if name in device_names()), None):
        raise TargetError(
            f"target: a plug-in calls itself {shadowing}, as a built-in device does: give it "
            "another name"
        )
    return known


def _backend(entry: Entry, plugins: Registry, first: bool, further: bool) -> Backend:
    """The back end of an entry, with checked attributes. first: it is the first entry. further: a
    VTA precedes it."""
    known = {attribute.name: attribute for attribute in attributes_of(entry.name, plugins)}
    unknown = next((name for name in entry.attributes if name not in known), None)
    if unknown is not None:
        raise TargetError(
            f"target: {entry.name} has no attribute {unknown!r}; it has "
            f"{', '.join(known) or 'none'}"
        )
    values: dict[str, int | str | bool] = {
        name: known[name].value(text, entry.name) for name, text in entry.attributes.items()
    }
    if _is_external(entry.name, plugins):
        return TvmExternal(entry.name, first)
    if entry.name not in plugins.backends:
        return backend_for(_config(entry.name, plugins), values, further=further)
    try:
        return plugins.backends[entry.name](**values)
    except ValueError as error:
        raise TargetError(f"target: {entry.name}: {error}") from error
    except Exception as error:  # foreign code
        file = file_of(plugins.backends[entry.name])
        raise BackendError(
            f"back end {entry.name} in {file}: making it: {cause_of(error, file)}"
        ) from error


def _is_external(name: str, plugins: Registry) -> bool:
    """Whether it is one of TVM's own; a plug-in or a device of the same name has precedence."""
    return name in external_names() and name not in plugins.backends and name not in device_names()


def _config(name: str, plugins: Registry | None) -> Device:
    try:
        return load_config(name)
    except ConfigError as error:
        if name in device_names() or is_file(Path(name)):
            raise
        known = [*accelerators(plugins), *ALIASES]
        raise TargetError(
            f"target: {name!r} is no accelerator; known are {', '.join(known)}, and JSON files of "
            f"devices{suggestion(name, known)}"
        ) from error
