# SPDX-License-Identifier: Apache-2.0
"""Commands as tools for another program: their words, and their answers in a size that it can read.

In:   a folder; names of files in it, targets, numbers.
Out:  the words of a command and the table of its answer; that answer with the table's first rows,
      or the one line that Loadstone says.
Next: commands/mcp.py runs the words and hands the answers on.

A caller is not trusted as a user is: files are below one folder, no code of an artifact is run,
and what is compiled for it is not recorded as the user's own (runtime/own_files.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.errors import ConfigError
from loadstone.files import JsonObject, JsonValue

__all__ = ["MAX_CHARACTERS", "Asked", "Folder", "bounded", "environment"]

#: The longest answer: what a program reads at once. A table that does not fit is cut.
MAX_CHARACTERS = 12_000
#: Of a list beside the table so many entries are shown.
_MAX_LIST = 20


@dataclass(frozen=True)
class Asked:
    """A command. table: the field of its answer that is cut; empty where the answer is a list."""

    words: tuple[str, ...]
    table: str


class Folder:
    """The folder that callers may read and write."""

    def __init__(self, root: Path) -> None:
        """Raises ConfigError where there is none."""
        if not root.is_dir():
            raise ConfigError(f"mcp: {root} is no folder: name the one that callers may use")
        self.root = root.resolve()

    def path(self, name: str) -> str:
        """A file below the folder, as a word that no command takes for anything else. Raises
        ConfigError for one that is elsewhere."""
        if not name or "\0" in name:
            raise ConfigError("a file needs a name")
        place = Path(os.path.realpath(self.root / name))
        if place == self.root or not place.is_relative_to(self.root):
            raise ConfigError(f"{name} is not below the folder that this server may use")
        return f".{os.sep}{place.relative_to(self.root)}"

    def target(self, text: str) -> str:
        """A target; files of devices in it are below the folder. Raises ConfigError as well."""
        parts = [part.split(" ") for part in text.split(",")]
        for part in parts:
            words = [index for index, word in enumerate(part) if word]
            for index in words:
                if os.sep in part[index] or part[index].endswith(".json"):
                    if index != words[0]:
                        raise ConfigError(f"{part[index]}: an attribute of a target is no file")
                    part[index] = self.path(part[index])
                elif os.path.isfile(self.root / part[index]):
                    self.path(part[index])  # a device's file by its bare name: no link leads out
        return ",".join(" ".join(part) for part in parts)

    def compile(self, model: str, target: str, output: str) -> Asked:
        """`loadstone compile`: its figures."""
        words = (self.path(model), f"--target={self.target(target)}", "-o", self.path(output))
        return Asked(("compile", *words), "operators_on_host")

    def explain(self, model: str, target: str, output: str) -> Asked:
        """`loadstone compile --explain`: every operator. output: of the caller's, not below the
        folder."""
        words = (self.path(model), f"--target={self.target(target)}", "-o", output, "--explain")
        return Asked(("compile", *words), "explain")

    def profile(self, artifact: str) -> Asked:
        """`loadstone profile`: every layer."""
        return Asked(("profile", self.path(artifact)), "layers")

    def compare(self, artifact: str, inputs: str, model: str) -> Asked:
        """`loadstone compare --all` with the model's definition."""
        against = ("--inputs", self.path(inputs), "--against", self.path(model), "--all")
        return Asked(("compare", self.path(artifact), *against), "layers")

    def conform(self, backend: str, cases: int) -> Asked:
        """`loadstone conform`."""
        return Asked(("conform", "--cases", str(cases), "--", self.target(backend)), "")

    def disasm(self, file: str, device: str) -> Asked:
        """`loadstone disasm`. device: empty for the artifact's own."""
        of = (f"--device={self.target(device)}",) if device else ()
        return Asked(("disasm", self.path(file), *of), "lines")


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Of a command's process: no artifact is known as the user's own in it, nor becomes known."""
    return {**own, "XDG_STATE_HOME": os.devnull}


def bounded(value: JsonValue, table: str, first: int) -> str:
    """An answer of at most MAX_CHARACTERS, as JSON: the rows of its table from `first` on that fit,
    and `shown`, which says how many there are. Raises ConfigError where no row fits, or none is
    there."""
    whole: JsonObject = dict(value) if table else {"rows": value}
    name = table or "rows"
    rows: Sequence[JsonValue] = whole.pop(name, [])
    if first < 0 or first > max(len(rows) - 1, 0):
        raise ConfigError(f"first={first}: {name} has {len(rows)} rows, the first of them 0")
    rest = {key: _short(entry) for key, entry in whole.items()}
    count = len(rows) - first
    while True:
        shown = {"table": name, "first": first, "count": count, "of": len(rows)}
        text = json.dumps({**rest, name: list(rows[first : first + count]), "shown": shown})
        if len(text) <= MAX_CHARACTERS:
            return text
        if count <= 1:
            raise ConfigError(
                f"{name}: row {first} makes an answer of {len(text)} characters, the limit is "
                f"{MAX_CHARACTERS}: ask the command itself"
            )
        count = max(1, min(count - 1, count * MAX_CHARACTERS // len(text)))


def _short(entry: JsonValue) -> JsonValue:
    if isinstance(entry, list) and len(entry) > _MAX_LIST:
        return {"first": entry[:_MAX_LIST], "of": len(entry)}
    return entry
