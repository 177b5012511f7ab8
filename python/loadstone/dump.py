"""Write every stage as a numbered text file, so that a compile can be read.

In:   a folder (`--dump DIR`, or the environment variable LOADSTONE_DUMP), and texts or modules with
      a title.
Out:  DIR/001.relax.txt, DIR/002.graph.txt ...
Next: a person reads them, or a test compares them with golden text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from loadstone.files import write_whole

__all__ = ["Dump"]


class Dump:
    """Writes nothing when no folder is named."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """folder: None takes LOADSTONE_DUMP; files of an earlier dump there are overwritten, never
        removed."""
        chosen = folder if folder is not None else os.environ.get("LOADSTONE_DUMP") or None
        self.folder = Path(chosen) if chosen is not None else None
        self.count = 0

    def write(self, title: str, content: Any) -> None:
        """One stage: a text, or anything with TVM's `script()`."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.count += 1
        text = content if isinstance(content, str) else content.script()
        safe = re.sub(r"[^\w.-]+", "_", title)[:120]
        write_whole(self.folder / f"{self.count:03}.{safe}.txt", text + "\n")
