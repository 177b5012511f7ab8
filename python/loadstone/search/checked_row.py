# SPDX-License-Identifier: Apache-2.0
"""A row of a store as text with a checksum, which detects rows that were changed or damaged.

In:   the key of a row; its content, as JSON.
Out:  the text that a database stores; its content, or None if the checksum is wrong.
Next: store.py (sweep) and tune_store.py keep such texts: a row that is None is computed again.
"""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256

from loadstone.files import JsonValue
from loadstone.printable import one_line

__all__ = ["DATABASE_ERRORS", "complaint", "opened_row", "sealed_row"]

#: What SQLite raises; of a damaged file also when Python reads its message.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)

_REMEDY = "delete it, and what it held is computed again; or name another file"
_DIGITS = 32


def complaint(error: Exception) -> str:
    """What is wrong with a database, and what to do."""
    why = "it is damaged" if isinstance(error, UnicodeDecodeError) else one_line(error)
    return f"{why}: {_REMEDY}"


def sealed_row(key: str, value: JsonValue) -> str:
    """key: a row of one place is none of another's."""
    text = json.dumps(value)
    return f"{_checksum(key, text)} {text}"


def opened_row(key: str, stored: object) -> JsonValue:
    """stored: bytes, as a database holds them, or whatever else stands in its place."""
    if not isinstance(stored, bytes):
        return None
    checksum, _, text = stored.decode("utf-8", "replace").partition(" ")
    return json.loads(text) if checksum == _checksum(key, text) else None


def _checksum(key: str, text: str) -> str:
    return sha256(f"{key}\n{text}".encode()).hexdigest()[:_DIGITS]
