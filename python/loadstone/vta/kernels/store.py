# SPDX-License-Identifier: Apache-2.0
"""Kernels that were lowered before, in a folder: by this process, another one, or last week.

In:   what a kernel is made from (spec, device, costs), and how to make it.
Out:  the Kernel, from the folder where it stands there.
Next: operators/kernels.py emits its operations.

Only where LOADSTONE_KERNELS names a folder. A file's name is a digest of all that decides what it
holds: the spec, the device, its costs, TVM's version, and the text of the modules that lower. So
nothing in it is ever stale; it may be deleted at any time, and processes may share it. It holds
Python that is executed: it must be as trustworthy as the package itself. So nobody else may write
there: a folder, or a file, that another user owns or may write is refused, and so is a folder that
another user may exchange.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from loadstone.errors import ConfigError
from loadstone.files import write_whole
from loadstone.relax.compat import tvm
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.kernels.from_tir import Kernel, kernel_of
from loadstone.vta.stream.cost import CostModel

__all__ = ["FOLDER", "kept"]

#: The environment variable that names the folder.
FOLDER = "LOADSTONE_KERNELS"
#: What lowers a kernel; the text of every module below these decides what comes of it. The first
#: says which version the package is.
_LOWERING = ("__init__.py", "ir_pass", "relax", "vta", "numerics.py")


def kept(spec: object, config: HwConfig, cost: CostModel, make: Callable[[], Kernel]) -> Kernel:
    """The kernel of a spec: read from the folder, or made and written there. Raises ConfigError for
    a folder that cannot be written."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return make()
    _check_folder(folder)
    path = Path(folder) / f"{_name(spec, config, cost)}.json"
    found = _read(path)
    if found is not None:
        parameters, source = found
        return kernel_of(parameters, source, lambda: make().functions())
    kernel = make()
    _write(path, kernel)
    return kernel


@lru_cache(maxsize=4)
def _check_folder(folder: str) -> None:
    """Of the folder, and those above it: who writes there can put another one in its place, unless
    it is as /tmp, where each moves only his own."""
    path = Path(folder)
    path = next(p for p in (path, *path.absolute().parents) if p.exists()).resolve()
    for part in (path, *path.parents):
        mode = part.stat().st_mode
        if part == path or not mode & stat.S_ISVTX:
            _check_owner(part, part.stat())


def _check_owner(path: Path, found: os.stat_result) -> None:
    """Raises ConfigError for what somebody else may have written."""
    others = stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    if found.st_uid not in (os.getuid(), 0) or others:
        who = "another user's" if not others else "for others to write, too"
        raise ConfigError(
            f"{FOLDER}={path}: it is {who}, and kernels in it are code: name a folder that you "
            "alone can write, or none"
        )


def _name(spec: object, config: HwConfig, cost: CostModel) -> str:
    device = [(f.name, getattr(config, f.name)) for f in fields(config) if f.compare]
    return sha256(repr((_version(), spec, device, cost)).encode()).hexdigest()


@lru_cache(maxsize=1)
def _version() -> str:
    """Of the package, of TVM, and of what lowers."""
    package = Path(__file__).parents[2]
    digest = sha256(str(tvm.__version__).encode())
    for part in _LOWERING:
        root = package / part
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            digest.update(str(path.relative_to(package)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> tuple[tuple[str, ...], str] | None:
    """Parameters and source; None for what is not there, or was not written to its end."""
    try:
        with path.open(encoding="utf-8") as file:
            _check_owner(path, os.fstat(file.fileno()))
            digest, _, text = file.read().partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if digest != sha256(text.encode()).hexdigest():
        return None
    content = json.loads(text)
    return tuple(content["parameters"]), content["source"]


def _write(path: Path, kernel: Kernel) -> None:
    """As one step, without waiting for the disk: a file that a crash cuts short is not read."""
    text = json.dumps({"parameters": kernel.parameters, "source": kernel.source})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{sha256(text.encode()).hexdigest()}\n{text}", durable=False)
    except OSError as error:
        raise ConfigError(
            f"{FOLDER}={path.parent}: no kernel can be kept there ({error.strerror}): name a "
            "folder that can be written, or none"
        ) from None
