# SPDX-License-Identifier: Apache-2.0
"""Composite targets as text and as JSON: accelerators in order of preference, and the host.

In:   `vtaq-1x16x16`, `npu-a,vtaq-1x16x16 -clock_mhz=200,llvm -mtriple=aarch64-linux-gnu`, an alias,
      a JSON file, a dict.
Out:  a TargetSpec: names and attributes as written. str(spec) and spec.to_json() read back to an
      equal one.
Next: target.py looks the names up, checks the attributes and makes back ends.

    text  =  entry { "," entry }                     entry  =  name { "-" attribute "=" value }
    JSON  =  {"kind": "composite", "host": {"kind": "llvm", ...}, "accelerators": [{"kind":
          "ext_dev", "device": NAME, ...}]}

The host is the last entry, `llvm` or `c`; left out, it is `llvm` for the machine that compiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from loadstone.errors import TargetError
from loadstone.files import JsonObject, JsonValue, is_file, parsed_json, read_whole

__all__ = ["ALIASES", "HOSTS", "Entry", "TargetSpec", "TargetText", "parse_target"]

#: How a target is written: text, the path of a JSON file, a dict, or several texts.
TargetText: TypeAlias = str | Path | Mapping[str, JsonValue] | Sequence[str]

#: Boards: what stands for what.
ALIASES = {
    "pynq-z2": "vta-pynq,llvm -mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a9",
    "de10-nano": "vta-de10nano,llvm -mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a9",
    "ultra96": "vta-ultra96,llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53",
    "zcu104": "vta-zcu104,llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53",
}
#: Kinds of host, and the attributes that TVM knows of them.
HOSTS: Mapping[str, tuple[str, ...]] = {"llvm": ("mtriple", "mcpu"), "c": ("mcpu",)}
_NAME = re.compile(r"[A-Za-z0-9_./\\:+][A-Za-z0-9_./\\:+-]*")
_VALUE = re.compile(r"[^\s,=]+")
_ATTRIBUTE = re.compile(r"-([A-Za-z_][A-Za-z0-9_]*)=(\S*)")


@dataclass(frozen=True)
class Entry:
    """One accelerator or the host: a name and its attributes, values as text."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.name, *(f"-{key}={value}" for key, value in self.attributes.items())])


@dataclass(frozen=True)
class TargetSpec:
    """accelerators: earlier ones are preferred. tag: the name of the file that it was read from,
    which TVM learns, too."""

    accelerators: tuple[Entry, ...]
    host: Entry = field(default_factory=lambda: Entry("llvm"))
    tag: str = field(default="", compare=False)

    def __str__(self) -> str:
        return ",".join(map(str, (*self.accelerators, self.host)))

    def to_json(self) -> JsonObject:
        """As parse_target reads it."""
        return {
            "kind": "composite",
            "host": {"kind": self.host.name, **self.host.attributes},
            "accelerators": [
                {"kind": "ext_dev", "device": e.name, **e.attributes} for e in self.accelerators
            ],
        }


def parse_target(target: TargetText) -> TargetSpec:
    """Text, an alias, the path of a JSON file with a composite, a dict, or several texts whose
    accelerators are joined in order.

    Raises TargetError: one line with what is wrong and what is allowed.
    """
    if isinstance(target, Mapping):
        return _from_json(target)
    if isinstance(target, str | Path):
        return _from_text(str(target))
    if not target:
        raise TargetError(
            "target: none was given; name an accelerator, such as vtaq-1x16x16 (`loadstone target`)"
        )
    specs = [parse_target(part) for part in target]
    hosts = [spec.host for spec in specs if spec.host != Entry("llvm")]
    if len(set(map(str, hosts))) > 1:
        raise TargetError(
            f"target: two hosts, {hosts[0]} and {hosts[1]}: all accelerators of a composite "
            "share one"
        )
    entries = tuple(entry for spec in specs for entry in spec.accelerators)
    return _checked(
        TargetSpec(
            entries, hosts[0] if hosts else Entry("llvm"), specs[0].tag if len(specs) == 1 else ""
        )
    )


# --- text -----------------------------------------------------------------------------------------
def _from_text(text: str) -> TargetSpec:
    if text.strip() in ALIASES:
        return _from_text(ALIASES[text.strip()])
    path = Path(text.strip())
    if path.suffix == ".json" and is_file(path):
        data = _read(path)
        if data.get("kind") == "composite":
            return replace(_from_json(data), tag=path.stem)
        return TargetSpec((Entry(text.strip()),))
    entries = [_entry(part, text) for part in text.split(",")]
    host = entries.pop() if entries[-1].name in HOSTS else Entry("llvm")
    return _checked(TargetSpec(tuple(entries), host))


def _entry(part: str, text: str) -> Entry:
    words = part.split()
    if not words:
        raise TargetError(
            f"target {text!r}: an entry is empty; write accelerators and the host, separated "
            "by single commas"
        )
    name, *rest = words
    if not _NAME.fullmatch(name):
        raise TargetError(
            f"target {text!r}: {name!r} is no name; an entry is NAME -attribute=value ..."
        )
    attributes: dict[str, str] = {}
    for word in rest:
        match = _ATTRIBUTE.fullmatch(word)
        if match is None or not _VALUE.fullmatch(match[2]):
            raise TargetError(
                f"target {text!r}: {word!r} is no attribute of {name}; write -attribute=value"
            )
        if match[1] in attributes:
            raise TargetError(f"target {text!r}: {name} has attribute {match[1]} twice")
        attributes[match[1]] = match[2]
    return Entry(name, attributes)


# --- JSON -----------------------------------------------------------------------------------------
def _read(path: Path) -> JsonObject:
    try:
        data = parsed_json(read_whole(path), f"target file {path}", TargetError)
    except OSError as error:
        raise TargetError(f"target file {path}: {error.strerror}") from None
    if not isinstance(data, dict):
        raise TargetError(f"target file {path}: holds a {type(data).__name__}, not an object")
    return data


def _from_json(data: Mapping[str, JsonValue]) -> TargetSpec:
    unknown = sorted(set(data) - {"kind", "host", "accelerators"})
    if data.get("kind") != "composite":
        raise TargetError(f"target: kind {data.get('kind')!r} is not 'composite'")
    if unknown:
        raise TargetError(
            f"target: unknown key {unknown[0]!r}; a composite has kind, host and accelerators"
        )
    accelerators = data.get("accelerators")
    if not isinstance(accelerators, Sequence) or isinstance(accelerators, str):
        raise TargetError("target: accelerators is not a list of objects")
    entries = [
        _json_entry(item, "device", f"accelerator {n}") for n, item in enumerate(accelerators)
    ]
    for n, item in enumerate(accelerators):
        if item.get("kind", "ext_dev") != "ext_dev":
            raise TargetError(
                f"target: accelerator {n} has kind {item['kind']!r}; accelerators are 'ext_dev'"
            )
    host = _json_entry(data["host"], "kind", "host") if "host" in data else Entry("llvm")
    return _checked(TargetSpec(tuple(entries), host))


def _json_entry(item: JsonValue, key: str, what: str) -> Entry:
    if (
        not isinstance(item, Mapping)
        or not isinstance(item.get(key), str)
        or not _NAME.fullmatch(item[key])
    ):
        raise TargetError(f"target: {what} is not an object with a name under {key!r}")
    attributes = {name: value for name, value in item.items() if name not in ("kind", key)}
    for name, value in attributes.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if (
            not isinstance(value, str | int | bool)
            or not _VALUE.fullmatch(text)
            or not _ATTRIBUTE.fullmatch(f"-{name}={text}")
        ):
            raise TargetError(
                f"target: {what}: {name}={value!r} is no attribute; a value is text without "
                "space or comma, an integer, a boolean"
            )
        attributes[name] = text
    return Entry(item[key], attributes)


def _checked(spec: TargetSpec) -> TargetSpec:
    """The rules that need no table of accelerators."""
    if not spec.accelerators:
        raise TargetError(
            f"target {spec.host.name!r}: there is no accelerator; name one before the host, "
            "such as vtaq-1x16x16"
        )
    for number, entry in enumerate(spec.accelerators):
        if entry.name in HOSTS:
            raise TargetError(
                f"target '{spec}': host {entry.name} stands before an accelerator; the host "
                "comes last"
            )
        if entry.name in (e.name for e in spec.accelerators[:number]):
            raise TargetError(f"target '{spec}': accelerator {entry.name} stands twice")
    if spec.host.name not in HOSTS:
        raise TargetError(f"target: host {spec.host.name!r} is not one of {', '.join(HOSTS)}")
    for name in spec.host.attributes:
        if name not in HOSTS[spec.host.name]:
            raise TargetError(
                f"target: host {spec.host.name} has no attribute {name!r}; it has "
                f"{', '.join(HOSTS[spec.host.name])}"
            )
    return spec
