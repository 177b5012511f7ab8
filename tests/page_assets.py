# SPDX-License-Identifier: Apache-2.0
"""The JavaScript libraries inside our pages: fetched from npm, pinned by version and digest.

In:   npm, which `npm pack` asks for the versions below.
Out:  python/loadstone/pages/assets/, as they stand in the repository.
Next: `python -m tests.page_assets` after a version was changed here; tests/pages/test_page.py
      compares the digests without a network.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.conftest import ROOT

__all__ = ["ASSETS", "FOLDER"]

FOLDER = ROOT / "python/loadstone/pages/assets"
#: (package and version, file in it) -> our file, and the SHA-256 of its bytes.
ASSETS = {
    ("uplot@1.6.32", "dist/uPlot.iife.min.js"): (
        "uPlot.iife.min.js",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    ("uplot@1.6.32", "dist/uPlot.min.css"): (
        "uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
    ("uplot@1.6.32", "LICENSE"): (
        "uPlot.LICENSE",
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    ),
    ("@dagrejs/dagre@3.1.3", "dist/dagre.min.js"): (
        "dagre.min.js",
        "7f751ea7f1695a56c55845e4415b8ce7d65620b10a15bf1ea806f70af10f97f2",
    ),
    ("@dagrejs/dagre@3.1.3", "LICENSE"): (
        "dagre.LICENSE",
        "6a349742a6cb219d5a2fc8d0844f6d89a6efc62e20c664450d884fc7ff2d6015",
    ),
}
#: Lines that would make a browser ask for a file that is not there.
_MAP = b"//# sourceMappingURL="


def fetch() -> None:
    """Writes every file. Raises ValueError for one whose digest is not the one above."""
    with tempfile.TemporaryDirectory() as folder:
        for package in {package for package, _ in ASSETS}:
            subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True)
        archives = {path.name: path for path in Path(folder).glob("*.tgz")}
        for (package, member), (name, digest) in ASSETS.items():
            stem = package.lstrip("@").replace("/", "-").replace("@", "-") + ".tgz"
            with tarfile.open(archives[stem]) as archive:
                found = archive.extractfile(f"package/{member}")
                assert found is not None
                lines = found.read().splitlines(keepends=True)
            data = b"".join(line for line in lines if not line.startswith(_MAP))
            actual = hashlib.sha256(data).hexdigest()
            if actual != digest:
                raise ValueError(f"{package} {member}: SHA-256 {actual}, not {digest}")
            (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    fetch()
