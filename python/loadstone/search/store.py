# SPDX-License-Identifier: Apache-2.0
"""What was found out already, by content: a sweep that was killed goes on where it stopped.

In:   keys made of all that a result depends on; results as JSON.
Out:  the same results, later.
Next: sweep.py asks before it gives work away, and keeps each result when it comes.

One SQLite file, written by one process alone, that which was started; workers never see it. Each
result is on the disk before the next is asked for. A row that is not as it was written is none: it
is computed again.
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
