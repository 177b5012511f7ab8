# SPDX-License-Identifier: Apache-2.0
"""A .pt2 file before it is read, and PyTorch itself.

In:   the bytes of a file, and the name that begins a message.
Out:  its checked files, and an archive of these alone; or a ModelError that says what the file is
      instead of a program; the package, imported late; a place where it is quiet and unpickles no
      classes.
Next: torch_graph.py reads the program, or PyTorch does.

For PyTorch an archive is packed anew, because its reader of archives is another than Python's: what
was checked, and nothing beside it, is what PyTorch sees.
"""

from __future__ import annotations

import io
import logging
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

from loadstone.errors import ModelError, not_installed
from loadstone.frontend.message import short
from loadstone.frontend.torch_text import check_config, checked_program

__all__ = ["checked_files", "packed", "pytorch", "quietly"]

EXPORT = 'torch.export.save(torch.export.export(model.eval(), (example,)), "model.pt2")'
PICKLED = (
    "holds pickled objects besides its tensors, which could run code: make them "
    "buffers of the model"
)


#: The parts of a program's archive below its root folder, and below none before PyTorch 2.8.
PROGRAMS = re.compile(r"models/[\w.\-]+\.json|serialized_exported_program\.json")
CONFIGS = re.compile(r"data/(weights|constants)/\w+_config\.json")
OTHERS = re.compile(
    r"data/(weights/weight_\w+|constants/tensor_\w+|(weights|constants|sample_inputs)/[\w.\-]+\.pt)"
    r"|archive_format|archive_version|byteorder|\.data/(version|serialization_id)"
    r"|version|serialized_(state_dict|constants|example_inputs)\.pt"
)


#: A file that archives without a root folder have, those before PyTorch 2.8.
ROOTLESS = "version"


def checked_files(data: bytes, name: str) -> dict[str, bytes]:
    """The files of an archive that PyTorch needs of a program, by their places below its root
    folder, with every text in them checked before PyTorch is imported for it."""
    files, checked = _archived(data, name), dict[str, bytes]()
    root = "" if ROOTLESS in files else next(iter(files)).partition("/")[0] + "/"
    for file, content in files.items():
        part = file.removeprefix(root)
        if PROGRAMS.fullmatch(part):
            checked[part] = checked_program(content, name)
            continue
        if CONFIGS.fullmatch(part):
            check_config(content, name)
        elif part.startswith(("extra/", "extra_files")):
            continue  # notes of the user's, which are no part of the program
        elif not OTHERS.fullmatch(part):
            raise ModelError(
                f'{name}: holds "{short(file)}" besides its program, which could be code: '
                f"write it with {EXPORT}"
            )
        checked[part] = content
    return checked


def packed(files: Mapping[str, bytes]) -> bytes:
    """An archive of these files alone, for PyTorch."""
    root, target = "" if ROOTLESS in files else "model/", io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for part, content in files.items():
            archive.writestr(f"{root}{part}", content)
    return target.getvalue()


def _archived(data: bytes, name: str) -> dict[str, bytes]:
    """The files of a program's archive by their names. PyTorch compresses none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if min((entry.header_offset for entry in entries), default=1):
                raise zipfile.BadZipFile  # the end of an archive in the archive
            _check_names([entry.filename for entry in entries], name)
            if sum(entry.file_size for entry in entries) > len(data):
                raise ModelError(f"{name}: a compressed archive: write it with {EXPORT}")
            if len({entry.filename for entry in entries}) < len(entries):
                raise zipfile.BadZipFile  # which of the two is meant?
            return {entry.filename: archive.read(entry) for entry in entries}
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        NotImplementedError,
        RuntimeError,
        EOFError,
    ):
        damaged = name.endswith(".pt2")
        what = (
            "a damaged file (cut short?), or none that torch.export.save wrote"
            if damaged
            else "no program of torch.export"
        )
        raise ModelError(f"{name}: {what}: write it with {EXPORT}") from None


def _check_names(files: list[str], name: str) -> None:
    """What the names in the archive say that it is."""
    if any("/constants/custom_obj_" in file or "/constants/opaque_obj_" in file for file in files):
        raise ModelError(f"{name}: {PICKLED}")
    if not any(
        file.endswith((".json", "version"))
        and ("/models/" in file or file.startswith("serialized_exported"))
        for file in files
    ):
        raise ModelError(f"{name}: {_other_than_program(files)}")


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
        raise ModelError(f"{name}: {not_installed('PyTorch', 'torch')}") from None
    return torch  # type: ignore[no-any-return]


@contextmanager
def quietly() -> Iterator[None]:
    """PyTorch warns about its own parts, logs tracebacks of what it raises, and would unpickle any
    class."""
    before, variable = logging.root.manager.disable, "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    chosen = os.environ.get(variable)
    os.environ[variable] = "1"
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        if chosen is None:
            del os.environ[variable]
        else:
            os.environ[variable] = chosen
