# SPDX-License-Identifier: Apache-2.0
"""The entries that a GGUF file is compiled to: `next` takes one token, `chunk` a part of a prompt.

In:   a model, how it is to be read, how many rows a chunk has.
Out:  how it is read for each entry, by name.
Next: compiler.py compiles each; gguf.py writes the decoder for so many rows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from loadstone.errors import ConfigError
from loadstone.frontend.reading import Reading

__all__ = ["CHUNK", "NEXT", "entry_readings"]

NEXT, CHUNK = "next", "chunk"
#: Tokens of a chunk where nobody says how many.
_ROWS = 16


def entry_readings(model: object, reading: Reading, rows: int | None = None) -> dict[str, Reading]:
    """One reading under the name "" for what has no entries: another kind of file, one row, or a
    number of tokens that `reading` says itself. Raises ConfigError for rows of another file, for
    less than one, and for rows beside `tokens`."""
    is_gguf = isinstance(model, str | Path) and Path(model).suffix.lower() == ".gguf"
    if rows is not None and rows < 1:
        raise ConfigError(f"rows={rows}: a chunk has at least 1")
    if rows not in (None, 1) and not is_gguf:
        raise ConfigError(f"rows={rows} is for a .gguf file: other models say their inputs' shapes")
    if "tokens" in reading.shapes and rows not in (None, 1):
        raise ConfigError(
            f"rows={rows} and tokens={reading.shapes['tokens'][0]} are both said: rows is for two "
            "entries, tokens for one that takes so many"
        )
    if not is_gguf or rows == 1 or "tokens" in reading.shapes:
        return {"": reading}
    window = reading.shapes.get("window", (_ROWS,))[0]
    count = min(_ROWS, window) if rows is None else rows
    if count == 1:
        return {"": reading}
    return {
        name: replace(reading, shapes={**reading.shapes, "tokens": (tokens,)})
        for name, tokens in ((NEXT, 1), (CHUNK, count))
    }
