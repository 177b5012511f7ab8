# SPDX-License-Identifier: Apache-2.0
"""The cycles that a test bench counts for each vector of a folder.

In:   the bench (a program that takes +vector, +code, +count, +latency), a folder of `loadstone
      vectors --hex`, the cycles that its memory waits.
Out:  a line for each vector on stdout: name, cycles, cycles with 64 more of waiting.
Next: `loadstone replay FOLDER --measured FILE`.

    python measure.py obj_dir/Vbench vectors 10 > measured.txt
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def counted(bench: str, vector: Path, code_base: int, count: int, latency: int) -> int:
    """Of one run. Ends the program where the bench finds another memory."""
    words = [f"+vector={vector}", f"+code={code_base:x}", f"+count={count}", f"+latency={latency}"]
    said = subprocess.run([bench, *words], capture_output=True, text=True, check=True).stdout
    found = [line for line in said.splitlines() if line.startswith("cycles ")]
    if not found:
        sys.exit(f"{vector.name}: {said}")
    return int(found[0].split()[1])


if __name__ == "__main__":
    bench, folder, latency = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    for program in json.loads((folder / "index.json").read_text())["programs"]:
        vector = folder / Path(program["file"]).stem
        place = program["code_base"], program["insn_count"]
        cycles = [counted(bench, vector, *place, wait) for wait in (latency, latency + 64)]
        print(program["name"], *cycles)
