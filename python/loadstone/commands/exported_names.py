# SPDX-License-Identifier: Apache-2.0
"""The name of a model in an exported project, so that a firmware may have several.

In:   texts of a project whose model is called `model`; a name.
Out:  the same with headers, assembler files and artifacts called NAME, NAME_bytes, and macros NAME_...
Next: export.py writes them.

The runtime keeps its names, because all models share it. Functions of steps in C are prefixed with
the model's name, because two models may have steps with the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from loadstone.errors import ArtifactError

__all__ = ["TAKEN", "UNNAMED", "check_name", "named_file", "named_files", "named_text"]

#: The default name of a project's model.
UNNAMED = "model"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
#: Other names of a project.
TAKEN = ("loadstone", "board", "main", "sample", "lds")
_FILES = ("h", "S", "lds")


def check_name(name: str, board: str, *, others: bool) -> None:
    """Raises ArtifactError for an invalid name. others: the model has programs of other devices."""
    if name == UNNAMED:
        return
    if board not in ("module", "arduino"):
        raise ArtifactError(f"--name {name} is for --board module and arduino, not for {board}")
    if not _NAME.fullmatch(name) or name in TAKEN:
        raise ArtifactError(
            f"--name {name!r} is not a name in C of at most 40 small letters, digits and _, "
            f"other than {', '.join(TAKEN)}"
        )
    if others:
        raise ArtifactError(
            f"--name {name}: the model has programs of other devices, whose tables cannot be "
            "renamed; leave --name away"
        )


def named_text(text: str, name: str) -> str:
    """A text of the project's."""
    if name == UNNAMED:
        return text
    text = re.sub(r"\bMODEL_", f"{name.upper()}_", text)
    text = re.sub(r"\bmodel_(?=bytes|external|operators)", f"{name}_", text)
    text = re.sub(rf"\bmodel\.({'|'.join(_FILES)})\b", rf"{name}.\1", text)
    text = re.sub(r"\bloadstone_model\b", f"loadstone_{name}", text)
    text = text.replace(
        "zephyr_library_named(loadstone)", f"zephyr_library_named(loadstone_{name})"
    )
    return text.replace("\nname: loadstone\n", f"\nname: loadstone_{name}\n")


def named_file(path: str, name: str) -> str:
    """The path of a project's file under the new name; Arduino's are in the source folder of its
    library."""
    file = PurePosixPath(path)
    if file.stem == UNNAMED and file.suffix[1:] in _FILES:
        return str(file.with_name(name + file.suffix))
    return path


def named_files(files: Mapping[str, str], name: str) -> dict[str, str]:
    """Steps in C by their paths, with a macro before each function that adds the name as a
    prefix."""
    if name == UNNAMED:
        return dict(files)
    symbols = {PurePosixPath(path).stem for path in files} - {"steps", "plugins", "operators"}
    symbols |= {s for text in files.values() for s in re.findall(r"\bplugin_\w+", text)}
    renamed = "".join(f"#define {symbol} {name}_{symbol}\n" for symbol in sorted(symbols))
    return {path: renamed + named_text(text, name) for path, text in files.items()}
