# SPDX-License-Identifier: Apache-2.0
"""Show what the passes of a compile made: a text file for each, or one pass on standard output.

In:   a folder (`--dump DIR`, or the environment variable LOADSTONE_DUMP), or the name of one pass
      (`--dump-after NAME`); the runs of a compile's passes.
Out:  DIR/01-frontend-import.txt ... DIR/29-program-allocate.vta_0.txt: place in the list, stage and
      name of the pass, and its subject; without a folder, the named pass on standard output.
Next: a person reads them, or a test compares them with golden text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from loadstone.errors import ConfigError
from loadstone.files import write_whole
from loadstone.passes.log import PassRun
from loadstone.passes.table import pass_named

__all__ = ["Dump"]


class Dump:
    """Writes nothing when neither a folder nor a pass is named."""

    def __init__(self, folder: str | Path | None = None, after: str | None = None) -> None:
        """folder: None takes LOADSTONE_DUMP; files of an earlier dump there are overwritten, never
        removed. after: write this pass alone. Raises ConfigError for a name that is no pass."""
        chosen = folder if folder is not None else os.environ.get("LOADSTONE_DUMP") or None
        self.folder = Path(chosen) if chosen is not None else None
        self.after = None if after is None else pass_named(after, "--dump-after").name

    @property
    def wanted(self) -> bool:
        """Whether anything is written: printing takes as long as lowering."""
        return self.folder is not None or self.after is not None

    def write(self, runs: Sequence[PassRun]) -> None:
        """The passes that ran, in the order of the list. Raises ConfigError where the one that was
        asked for did not."""
        if not self.wanted:
            return
        chosen = [run for run in runs if self.after in (None, run.name)]
        if self.after is not None and not chosen:
            ran = ", ".join(dict.fromkeys(run.name for run in runs))
            raise ConfigError(
                f"--dump-after {self.after}: this compilation did not need that pass; it ran {ran}"
            )
        self._write_all(chosen)

    def write_stopped(self, runs: Sequence[PassRun]) -> None:
        """The passes until a compile failed; the text of the last one begins with the error. Of
        `--dump-after` nothing, where that one had not run."""
        if self.wanted:
            self._write_all([run for run in runs if self.after in (None, run.name)])

    def _write_all(self, runs: Sequence[PassRun]) -> None:
        for run in runs:
            if run.text is not None:
                self._write_one(run, run.text())

    def _write_one(self, run: PassRun, text: str) -> None:
        if self.folder is None:
            print(f"# {run.entry.stage} {run.name} {run.subject}".rstrip() + f"\n{text}")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        subject = re.sub(r"[^\w.-]+", "_", run.subject)[:120]
        name = f"{run.entry.file_name}.{subject}.txt" if subject else f"{run.entry.file_name}.txt"
        write_whole(self.folder / name, text.rstrip("\n") + "\n")
