# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.pins [--write]`: every package that CI installs, by version and digest.

In:   what pip would install for the extras of .ci/run, and the tools of the build, on this kind of
      machine.
Out:  .ci/pins.txt, which pip takes with --require-hashes: a package that was exchanged is refused.
Next: .ci/run hands it to make (PINS); write it anew after a change of dependencies.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.conftest import ROOT

__all__ = ["FILE", "lines"]

FILE = ROOT / ".ci" / "pins.txt"
EXTRAS = ".[compiler,dev,torch]"
#: As the Makefile installs them first.
TOOLS = ("pip>=23", "scikit-build-core>=0.10,<1", "cmake>=3.22,<5", "ninja>=1.10,<2")
_HEAD = """\
# What CI installs, for Python 3.11 on x86-64 Linux: python -m tests.pins --write
"""


def lines(report: Sequence[dict[str, Any]]) -> list[str]:
    """Of pip's report, sorted; ours has no digest, and is not installed from anywhere."""
    found = []
    for entry in report:
        name, version = entry["metadata"]["name"], entry["metadata"]["version"]
        digest = entry["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is not None:
            found.append(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{digest}")
    return sorted(found)


def main(words: Sequence[str]) -> int:
    """Writes the file, or prints it."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "-q"]
    command += ["--no-build-isolation", "--report", "-", EXTRAS, *TOOLS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    text = _HEAD + "\n".join(lines(json.loads(done.stdout)["install"])) + "\n"
    if "--write" in words:
        FILE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
