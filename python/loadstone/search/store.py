# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep, stored by content, so that an interrupted sweep continues where it
stopped.

In:   keys of everything on which a result depends; results as JSON.
Out:  the same results, later.
Next: sweep.py looks a unit up before it gives it to a worker, and stores each result on arrival.

The store is one SQLite file, written only by the process that was started; workers do not access
it. Each result is on disk before the next is requested. A row whose checksum is wrong is ignored
and computed again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import TracebackType

from loadstone.errors import LoadstoneError
from loadstone.files import JsonObject, JsonValue
from loadstone.search.checked_row import DATABASE_ERRORS, complaint, opened_row, sealed_row

__all__ = ["ResultStore", "key_of"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"


def key_of(*parts: JsonValue) -> str:
    """Of JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class ResultStore:
    """A table of results in a file, or in memory for None. Raises LoadstoneError for a file that is
    no such table, and while another process writes it."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = path
        try:
            self.connection = sqlite3.connect(path or ":memory:", timeout=10)
            self.connection.text_factory = bytes
            self.connection.execute(_SCHEMA)
            self.connection.commit()
        except DATABASE_ERRORS as error:
            raise LoadstoneError(
                f"{path}: cannot be kept as a store of results: {complaint(error)}"
            ) from None

    def get(self, key: str) -> JsonObject | None:
        """The result, if there is one."""
        try:
            with closing(
                self.connection.execute("SELECT value FROM results WHERE key = ?", (key,))
            ) as found:
                row = found.fetchone()
        except DATABASE_ERRORS as error:
            raise LoadstoneError(
                f"{self.path}: a result cannot be read: {complaint(error)}"
            ) from None
        value = None if row is None else opened_row(key, row[0])
        return value if isinstance(value, dict) else None

    def put(self, key: str, value: JsonObject) -> None:
        """Keeps a result."""
        try:
            self.connection.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?)", (key, sealed_row(key, value))
            )
            self.connection.commit()
        except DATABASE_ERRORS as error:
            raise LoadstoneError(
                f"{self.path}: a result cannot be kept: {complaint(error)}"
            ) from None

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()
