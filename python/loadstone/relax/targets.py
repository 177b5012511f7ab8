# SPDX-License-Identifier: Apache-2.0
"""TVM's targets: an accelerator as one, and what this TVM's LLVM knows of hosts.

In:   attributes of a device and its host; a tvm.target.Target.
Out:  a target to enter; its contents as JSON; TargetError for a host that TVM does not know.
Next: backend/target.py reads targets, backend/scope.py enters them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from loadstone.errors import TargetError
from loadstone.files import JsonObject, JsonValue
from loadstone.relax.compat import tvm

if TYPE_CHECKING:
    from loadstone.relax.types import Target

__all__ = [
    "accelerator_target",
    "check_llvm_host",
    "register_target_tag",
    "system_cpu",
    "target_as_json",
]

#: How a triple may begin -> LLVM's name of the architecture, where they are not the same.
_ARCHITECTURES = (("arm64", "aarch64"), ("arm", "arm"), ("thumb", "thumb"), ("i", "i386"))
#: What a board's host is; LLVM has many more.
_USUAL = ("aarch64", "arm", "thumb", "riscv32", "riscv64", "x86_64")


def system_cpu() -> str:
    """LLVM's name of the processor that this runs on."""
    return str(tvm.target.codegen.llvm_get_system_cpu())


def accelerator_target(
    device: str, attributes: Mapping[str, JsonValue], host: Mapping[str, str]
) -> Target:
    """TVM's target of an accelerator, to enter: attributes as JSON in `model`. Raises TargetError
    for a host that TVM refuses."""
    return _accelerator_target(device, json.dumps(dict(attributes)), tuple(host.items()))


@lru_cache(maxsize=64)
def _accelerator_target(device: str, model: str, host: tuple[tuple[str, str], ...]) -> Target:
    try:
        return tvm.target.Target(
            {"kind": "ext_dev", "device": device, "model": model, "host": dict(host)}
        )
    except (RuntimeError, ValueError, TypeError) as error:
        words = " ".join(f"{name}={value}" for name, value in host)
        raise TargetError(
            f"target: TVM refuses the host {words}: {' '.join(str(error).split())[:200]}"
        ) from None


def target_as_json(target: object) -> JsonObject | None:
    """A tvm.target.Target of accelerators as target_spec reads it; None for anything else. Raises
    TargetError for other kinds."""
    if not isinstance(target, tvm.target.Target):
        return None
    kind = str(target.kind.name)
    if kind not in ("ext_dev", "composite"):
        raise TargetError(
            f"target: a target of TVM of kind {kind} names no accelerator; it is ext_dev, or "
            "a composite of these"
        )
    devices = target.attrs["devices"] if kind == "composite" else [target]
    entries = [
        {"device": str(d.attrs.get("device", "")), **_attributes(str(d.attrs.get("model", "{}")))}
        for d in devices
    ]
    return {"kind": "composite", "accelerators": entries, "host": _host(target.host)}


def _attributes(model: str) -> JsonObject:
    """What register_tag and accelerator_target write into `model`; nothing where another tool wrote
    it."""
    with suppress(ValueError):
        said = json.loads(model)
        if isinstance(said, dict):
            return {name: value for name, value in said.items() if name != "device"}
    return {}


def _host(host: Target) -> dict[str, str]:
    """The host's kind, triple and processor, as far as they differ from those that TVM puts in by
    itself."""
    if host is None:
        return {"kind": "llvm"}
    usual = tvm.target.Target({"kind": str(host.kind.name)}).attrs
    said = {name: str(host.attrs[name]) for name in ("mtriple", "mcpu") if name in host.attrs}
    return {
        "kind": str(host.kind.name),
        **{name: value for name, value in said.items() if str(usual.get(name, "")) != value},
    }


def register_target_tag(name: str, config: Mapping[str, JsonValue]) -> None:
    """A name for a target; the last of a name stands."""
    tvm.target.register_tag(name, dict(config), override=True)


@lru_cache(maxsize=64)
def check_llvm_host(mtriple: str, mcpu: str) -> None:
    """Raises TargetError for an architecture or a processor that this TVM's LLVM does not have:
    asked for one, TVM may crash."""
    names = [str(name) for name in tvm.target.codegen.llvm_get_targets()]
    usual = [name for name in _USUAL if name in names]
    first = mtriple.partition("-")[0]
    known = _architecture(first, names)
    if mtriple and known not in names:
        raise TargetError(
            f"target: host llvm -mtriple={mtriple}: this TVM's LLVM has no architecture "
            f"{first}; it has {', '.join(usual)} and others"
        )
    if not mcpu:
        return
    processors = _processors([mtriple] if mtriple else [f"{name}-linux-gnu" for name in usual])
    if mcpu not in processors:
        near = ", ".join(get_close_matches(mcpu, processors, 4, 0.3)) or processors[0]
        where = known or ", ".join(_USUAL)
        raise TargetError(
            f"target: host llvm -mcpu={mcpu} is none of the {len(processors)} processors of "
            f"{where}: try {near}"
        )


def _architecture(first: str, names: Sequence[str]) -> str:
    """LLVM's name of the architecture that a triple begins with; that beginning itself where none
    is known."""
    if first in names:
        return first
    return next((name for begin, name in _ARCHITECTURES if first.startswith(begin)), first)


def _processors(triples: Sequence[str]) -> list[str]:
    """All that LLVM can make code for under these triples."""
    return [
        str(name)
        for triple in triples
        for name in tvm.target.codegen.llvm_get_cpu_archlist(
            tvm.target.Target({"kind": "llvm", "mtriple": triple})
        )
    ]
