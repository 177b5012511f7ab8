# SPDX-License-Identifier: Apache-2.0
"""Back ends from outside the tree: installed packages, folders, and files.

In:   entry points of the group `loadstone.backends`; folders of *.py files, or one such file.
Out:  a Registry: back-end classes by name, and one line for each plug-in that is broken. The others
      work.
Next: target.py creates back ends from them; runtime/device.py registers their functions for
      external steps.

A package offers a class:    [project.entry-points."loadstone.backends"]    npu =
                             "my_package.npu:Npu"
From a folder those files are imported, and so executed, that import `loadstone.backend`, except
those whose names begin with `_`, `test_` or `conftest`: beside a back end there may be scripts that
train a network. A file that is named itself is imported whatever it holds. Each must define a
subclass of Backend.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from loadstone.backend.external import register_external
from loadstone.backend.interface import Attribute, Backend
from loadstone.backend.target_spec import parse_target
from loadstone.errors import TargetError
from loadstone.files import read_whole
from loadstone.isa.accelerator import Accelerator, register_accelerator

__all__ = ["GROUP", "RESERVED", "Registry", "described_accelerator", "load_plugins"]

GROUP = "loadstone.backends"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Names that no plug-in may have: built-in back ends and hosts.
RESERVED = ("vta", "host", "llvm", "c", "none")
_NO_PLUGINS = ("_", "test_", "conftest")
_IMPORTS_BACKEND = re.compile(rb"^\s*(from|import)\s+loadstone(\.|\s+import\s+)backend\b", re.M)


@dataclass(frozen=True)
class Registry:
    """backends: by name, in the order found. problems: one line each, naming the file or entry
    point and the cause. folders: from which they came besides packages."""

    backends: dict[str, type[Backend]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    folders: tuple[str, ...] = ()

    def add(self, where: str, find: Callable[[], Sequence[type[Backend]]]) -> None:
        """Adds what `find` gives, or says why it cannot. A plug-in is foreign code: whatever it
        raises is its problem alone."""
        try:
            for backend in find():
                _check(backend)
                if backend.name in self.backends:
                    raise TargetError(
                        f"back end {backend.name} is known already, from "
                        f"{inspect.getfile(self.backends[backend.name])}"
                    )
                _make_known(backend)
                self.backends[backend.name] = backend
        except (Exception, SystemExit) as error:
            cause = (
                str(error) if isinstance(error, TargetError) else f"{type(error).__name__}: {error}"
            )
            self.problems.append(f"back end in {where}: {' '.join(cause.split())}; left out")


def load_plugins(folders: Sequence[str | Path] = (), installed: bool = True) -> Registry:
    """The back ends of `folders`, each a folder or a file, then the installed ones. Raises
    TargetError for what is neither, and for a folder that holds none."""
    registry = Registry(folders=tuple(str(Path(folder).resolve()) for folder in folders))
    for folder in map(Path, folders):
        for path in _files(folder):
            registry.add(str(path), partial(_of_file, path))
    for entry in entry_points(group=GROUP) if installed else ():
        registry.add(f"entry point {entry.name} = {entry.value}", partial(_of_entry, entry))
    return registry


def described_accelerator(registry: Registry, text: str) -> Accelerator | None:
    """The accelerator of `NAME` or `NAME -attribute=value ...`; None where no plug-in of that name
    describes one. Raises TargetError for attributes that it lacks."""
    if text.split(" ")[0] not in registry.backends:
        return None
    (entry, *_) = parse_target(text).accelerators
    backend = registry.backends[entry.name]
    known = [attribute.name for attribute in backend.target_attributes]
    if unknown := next((name for name in entry.attributes if name not in known), None):
        has = ", ".join(known) or "none"
        raise TargetError(f"{entry.name} has no attribute {unknown!r}; it has {has}")
    found = _accelerator(backend, entry.attributes)
    if found is None:
        raise TargetError(f"{entry.name} describes no accelerator: its class sets none")
    return found


def _files(path: Path) -> list[Path]:
    """The files that a path names: itself, or those of a folder that look like back ends."""
    if path.is_file() and path.suffix == ".py":
        return [path]
    if not path.is_dir():
        raise TargetError(
            f"--uma-backends {path} is no folder and no *.py file; name one that holds back ends"
        )
    own = [file for file in sorted(path.glob("*.py")) if not file.name.startswith(_NO_PLUGINS)]
    found = [file for file in own if _IMPORTS_BACKEND.search(read_whole(file))]
    if not found:
        raise TargetError(
            f"--uma-backends {path}: no *.py file in it imports loadstone.backend, as a back end "
            "does; name the file itself if one is there"
        )
    return found


def _of_entry(entry: EntryPoint) -> list[Any]:
    return [entry.load()]


def _of_file(path: Path) -> list[Any]:
    return _of_module(_import(path))


def _import(path: Path) -> ModuleType:
    """A fresh module of the file, under a name of its own."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"loadstone_plugin_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _of_module(module: ModuleType) -> list[type[Backend]]:
    """The back ends that it defines itself."""
    classes = [
        c
        for c in vars(module).values()
        if inspect.isclass(c) and issubclass(c, Backend) and c.__module__ == module.__name__
    ]
    if not classes:
        raise TargetError("it defines no subclass of loadstone.backend.Backend")
    return classes


def _check(backend: type[Backend]) -> None:
    """What a target needs of a class. Raises TargetError."""
    if not (inspect.isclass(backend) and issubclass(backend, Backend)):
        raise TargetError(f"{backend!r} is no subclass of loadstone.backend.Backend")
    if inspect.isabstract(backend):
        raise TargetError(
            f"class {backend.__name__} lacks {', '.join(sorted(backend.__abstractmethods__))}"
        )
    name = getattr(backend, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in RESERVED:
        raise TargetError(
            f"class {backend.__name__}: name {name!r} is not letters, digits, - and _, or is "
            f"one of {', '.join(RESERVED)}"
        )
    seen: set[str] = set()
    for attribute in backend.target_attributes:
        if (
            not isinstance(attribute, Attribute)
            or not isinstance(attribute.name, str)
            or not _ATTRIBUTE.fullmatch(attribute.name)
        ):
            raise TargetError(
                f"class {backend.__name__}: {attribute!r} is no Attribute with a name of "
                "letters, digits and _"
            )
        if attribute.name in seen:
            raise TargetError(f"class {backend.__name__}: attribute {attribute.name} stands twice")
        seen.add(attribute.name)
        if not isinstance(attribute.default, int | str):
            raise TargetError(
                f"class {backend.__name__}: attribute {attribute.name}={attribute.default!r} "
                "is neither int, str nor bool"
            )
        if attribute.allowed is not None and attribute.default not in attribute.allowed:
            raise TargetError(
                f"class {backend.__name__}: attribute {attribute.name}={attribute.default!r} "
                f"is not in {attribute.limits}"
            )


def _make_known(backend: type[Backend]) -> None:
    """Registers its functions of external steps. Raises TargetError for what is none."""
    functions = dict(backend.externals())
    for name, function in functions.items():
        if not isinstance(name, str) or not callable(function):
            raise TargetError(f"externals: {name!r}: {function!r} is no function with a name")
        if name.startswith("loadstone."):
            raise TargetError(f"externals: {name!r}: names with loadstone. are Loadstone's own")
    for name, function in functions.items():
        register_external(name, function)
    register_accelerator(backend.name, partial(_accelerator, backend))


def _accelerator(backend: type[Backend], values: Mapping[str, int | str]) -> Accelerator | None:
    """Of the back end with these attributes, which an artifact says. Raises TargetError for one
    that it lacks."""
    known = {attribute.name: attribute for attribute in backend.target_attributes}
    typed = {
        name: known[name].value(_text(value), backend.name)
        for name, value in values.items()
        if name in known
    }
    return backend(**typed).accelerator


def _text(value: int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
