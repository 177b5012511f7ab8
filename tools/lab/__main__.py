# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.lab [FOLDER]`: the lab, whole, in build/lab: `make lab`.

In:   lab/, the sources of the module (module.py), the exercises and devices (page_data.py).
Out:  index.html with scripts, lab.wasm, exercises.json, devices.json: files that any web server
      gives out; sources.txt, the digest of what they were made of.
Next: docs/site/lab.py puts them into the site; tests/lab/ tests them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.lab import page_data
from tools.lab.module import build

__all__ = ["digest", "main"]

_ROOT = Path(__file__).parents[2]
_MADE_OF = ("lab", "runtime", "driver", "hw_sim", "tools/lab", "python/loadstone/vta/devices")
_KINDS = {".c", ".cc", ".h", ".inc", ".S", ".mjs", ".html", ".css", ".py", ".json", ".md"}


def digest(root: Path) -> str:
    """Of the files that the lab is made of."""
    files = (path for part in _MADE_OF for path in (root / part).rglob("*"))
    all_files = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in _KINDS):
        all_files.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
        all_files.update(path.read_bytes())
    return all_files.hexdigest()


def main(words: Sequence[str] = ()) -> int:
    """Builds it; the exit status."""
    folder = Path(words[0]) if words else _ROOT / "build/lab"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        module = build(_ROOT, _ROOT / "build/lab-module")
    except subprocess.CalledProcessError:
        print("lab: no module: the compiler ended as above", file=sys.stderr)
        return 1
    shutil.copy(module, folder / module.name)
    for path in sorted((_ROOT / "lab/page").iterdir()):
        shutil.copy(path, folder / path.name)
    for name, content in (("exercises", page_data.exercises()), ("devices", page_data.devices())):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "sources.txt").write_text(digest(_ROOT), encoding="utf-8")
    print(f"{folder / 'index.html'}: {module.stat().st_size} bytes of module")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
