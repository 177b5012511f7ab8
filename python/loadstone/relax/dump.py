# SPDX-License-Identifier: Apache-2.0
"""Write every stage as a numbered text file, so that a compile can be read.

In:   a folder (`--dump DIR`, or the environment variable LOADSTONE_DUMP), or the name of one stage
      (`--dump-after NAME`); texts or modules with a title.
Out:  DIR/001.relax.txt, DIR/002.graph.txt ... in the order of the pipeline; without a folder, the
      named stage on standard output.
Next: a person reads them, or a test compares them with golden text.

A title ends in the stage's name: `conv2d_3.schedule`, `vta_0.allocate`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from loadstone.errors import ConfigError
from loadstone.files import write_whole

__all__ = ["Dump"]


class Dump:
    """Writes nothing when neither a folder nor a stage is named."""

    def __init__(self, folder: str | Path | None = None, after: str | None = None) -> None:
        """folder: None takes LOADSTONE_DUMP; files of an earlier dump there are overwritten, never
        removed. after: write the texts of this stage alone, with the numbers they have among
        all."""
        chosen = folder if folder is not None else os.environ.get("LOADSTONE_DUMP") or None
        self.folder = Path(chosen) if chosen is not None else None
        self.after = after
        self.count = 0
        self._stages: dict[str, bool] = {}  # those that came by, in order: written?

    @property
    def wanted(self) -> bool:
        """Whether anything is written: printing TensorIR takes as long as lowering it."""
        return self.folder is not None or self.after is not None

    def write(self, title: str, content: Any) -> None:
        """One stage: a text, or anything with TVM's `script()`."""
        if not self.wanted:
            return
        self.count += 1
        stage = title.rsplit(".", 1)[-1]
        chosen = self.after in (None, stage)
        self._stages[stage] = chosen
        if not chosen:
            return
        text = content if isinstance(content, str) else content.script()
        if self.folder is None:
            print(f"# {title}\n{text}")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        safe = re.sub(r"[^\w.-]+", "_", title)[:120]
        write_whole(self.folder / f"{self.count:03}.{safe}.txt", text + "\n")

    def check(self) -> None:
        """Raises ConfigError where no stage had the name that was asked for."""
        if self.after is not None and not any(self._stages.values()):
            raise ConfigError(
                f"--dump-after {self.after}: no stage of this compilation has that name; there "
                f"were {', '.join(self._stages)}"
            )
