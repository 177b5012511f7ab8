# SPDX-License-Identifier: Apache-2.0
"""Store trials of layers that were simulated, in an SQLite file, by content, for all networks.

In:   a file; layers and choices.
Out:  the stored trials; new ones are written as soon as they are known, so that an interrupted
      search continues where it stopped.
Next: tune.py looks a trial up before it simulates.

A trial is kept by the layer's key (device, timing, operator), by whether the host packs its input,
by its choice, and by a digest of the compiler's own files, because another compiler may give other
cycles. A damaged row is ignored, and simulated again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, fields
from hashlib import sha256
from pathlib import Path

import loadstone
from loadstone.errors import ConfigError
from loadstone.files import JsonObject, JsonValue
from loadstone.search.checked_row import DATABASE_ERRORS, complaint, opened_row, sealed_row
from loadstone.search.tune_layer import LayerTrial
from loadstone.search.tune_study import ScheduleChoice

__all__ = ["TrialStore", "compiler_digest", "default_store"]

_VERSION = 2
_TABLE = """CREATE TABLE IF NOT EXISTS trials (
    compiler TEXT, layer TEXT, choice TEXT, trial TEXT, PRIMARY KEY (compiler, layer, choice)
) WITHOUT ROWID"""
#: Another process may be writing.
_WAIT_SECONDS = 60
#: Folders of the package whose files decide what a program is and how long it takes.
_FOLDERS = ("artifact", "backend", "graph", "ir_pass", "isa", "simulator", "vta")


def default_store() -> Path:
    """Where trials are kept for all networks: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "loadstone" / "tune.sqlite"


def compiler_digest() -> str:
    """16 hex digits: of the sources that decide cycles."""
    root = Path(loadstone.__file__).parent
    state = sha256(f"{_VERSION}".encode())
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".py", ".json"}:
                state.update(str(path.relative_to(root)).encode())
                state.update(path.read_bytes())
    return state.hexdigest()[:16]


def _is_trial(said: JsonValue) -> bool:
    """Whether it is the numbers of a trial: a store may be anybody's."""
    numbers = isinstance(said, list) and all(type(n) is int and n >= 0 for n in said)
    return numbers and len(said) == len(fields(LayerTrial))


class TrialStore:
    """One file, for one compiler. Raises ConfigError for a file that cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.compiler = compiler_digest()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._run(_TABLE)
        except OSError as error:
            raise ConfigError(f"--store {path}: {error.strerror}") from None

    def trials(
        self, layer: str, read: Callable[[JsonObject, str], ScheduleChoice]
    ) -> dict[ScheduleChoice, LayerTrial | None]:
        """What is known of a layer; None for a choice that the device cannot do. read: makes a
        choice of its record."""
        rows = self._run(
            "SELECT choice, trial FROM trials WHERE compiler = ? AND layer = ?",
            (self.compiler, layer),
        )
        found: dict[ScheduleChoice, LayerTrial | None] = {}
        for choice, trial in rows:
            said = opened_row(self._key(layer, choice), trial)
            if said == [] or _is_trial(said):
                known = read(json.loads(choice), str(self.path))
                found[known] = LayerTrial(*said) if said else None
        return found

    def _key(self, layer: str, choice: object) -> str:
        text = choice.decode("utf-8", "replace") if isinstance(choice, bytes) else str(choice)
        return f"{self.compiler} {layer} {text}"

    def add(self, layer: str, choice: ScheduleChoice, trial: LayerTrial | None) -> None:
        """Keeps it: on the disk when this returns."""
        said = json.dumps(choice.to_json(), sort_keys=True)
        numbers = [] if trial is None else list(astuple(trial))
        self._run(
            "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?)",
            (self.compiler, layer, said, sealed_row(self._key(layer, said), numbers)),
        )

    def _run(self, statement: str, values: tuple[str, ...] = ()) -> list[tuple[bytes, bytes]]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT_SECONDS)) as database, database:
                database.text_factory = bytes
                return database.execute(statement, values).fetchall()
        except DATABASE_ERRORS as error:
            raise ConfigError(
                f"--store {self.path}: no file of trials, or one that cannot be written: "
                f"{complaint(error)}"
            ) from None
