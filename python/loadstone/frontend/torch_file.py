# SPDX-License-Identifier: Apache-2.0
"""A .pt2 file before PyTorch reads it, and PyTorch itself.

In:   the bytes of a file, and the name that begins a message.
Out:  nothing, or a ModelError that says what the file is instead of a program; the package,
      imported late; a place where it is quiet and unpickles no classes.
Next: torch.py loads the program.
"""

from __future__ import annotations

import io
import logging
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from loadstone.errors import ModelError

__all__ = ["check_archive", "pytorch", "quietly"]

EXPORT = 'torch.export.save(torch.export.export(model.eval(), (example,)), "model.pt2")'
PICKLED = (
    "holds pickled objects besides its tensors, which could run code: make them "
    "buffers of the model"
)


def check_archive(data: bytes, name: str) -> None:
    """What the names in the archive say that it is, before PyTorch is imported for it."""
    files = _archived(data, name)
    if any("/constants/custom_obj_" in file or "/constants/opaque_obj_" in file for file in files):
        raise ModelError(f"{name}: {PICKLED}")
    if not any(
        file.endswith((".json", "version"))
        and ("/models/" in file or file.startswith("serialized_exported"))
        for file in files
    ):
        raise ModelError(f"{name}: {_other_than_program(files)}")


def _archived(data: bytes, name: str) -> list[str]:
    """The names of the files in the archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.namelist()
            if min(
                (entry.header_offset for entry in archive.infolist()), default=1
            ):  # the end of an archive in the archive
                raise zipfile.BadZipFile
    except (zipfile.BadZipFile, ValueError):
        damaged = name.endswith(".pt2")
        what = (
            "a damaged file (cut short?), or none that torch.export.save wrote"
            if damaged
            else "no program of torch.export"
        )
        raise ModelError(f"{name}: {what}: write it with {EXPORT}") from None
    return files


def _other_than_program(files: list[str]) -> str:
    """What the archive holds instead, and what to do."""
    if any("/aotinductor/" in file for file in files):
        return f"holds compiled code (AOTInductor), no program: write it with {EXPORT}"
    if any(file.endswith("data.pkl") for file in files):
        what = (
            "TorchScript"
            if any("/code/" in file for file in files)
            else "weights without a program (a state_dict or a pickled module)"
        )
        return f"holds {what}: export the model with {EXPORT}"
    return f"holds no program: write it with {EXPORT}"


def pytorch(name: str) -> ModuleType:
    """The package. Raises ModelError where it is missing."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ModelError(
            f"{name}: PyTorch is not installed: pip install 'loadstone[torch]'"
        ) from None
    return torch  # type: ignore[no-any-return]


@contextmanager
def quietly() -> Iterator[None]:
    """PyTorch warns about its own parts, logs tracebacks of what it raises, and would unpickle any
    class."""
    before, variable = logging.root.manager.disable, "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    chosen = os.environ.get(variable)
    os.environ.setdefault(variable, "1")
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        if chosen is None:
            del os.environ[variable]
