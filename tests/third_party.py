# SPDX-License-Identifier: Apache-2.0
"""What a wheel carries that is not ours: its licences as one text, and as components of a software
bill of materials.

In:   the libraries inside our pages (page_assets.py).
Out:  THIRD_PARTY_LICENSES.txt; CycloneDX JSON of an installed environment and what the wheel
      carries.
Next: `python -m tests.third_party --write` after a library was added; `make sbom`.

CycloneDX's own tool knows what is installed; it cannot know what stands inside our package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.page_assets import ASSETS, FOLDER

__all__ = ["FILE", "components", "licences"]

FILE = ROOT / "THIRD_PARTY_LICENSES.txt"
_HEAD = """\
A wheel of Loadstone, and what it writes, carry the following libraries. Loadstone itself is under
the Apache License 2.0: LICENSE.
"""
_RULE = "-" * 80


def _libraries() -> dict[str, list[str]]:
    """Package and version of npm -> its files here."""
    found: dict[str, list[str]] = {}
    for (package, _), (name, _) in ASSETS.items():
        found.setdefault(package, []).append(name)
    return found


def licences() -> str:
    """Every licence in full, behind the library's name, version and files."""
    parts = [_HEAD]
    for package, names in _libraries().items():
        (licence,) = (name for name in names if name.endswith(".LICENSE"))
        files = ", ".join(name for name in names if name != licence)
        text = (FOLDER / licence).read_text(encoding="utf-8").strip()
        parts.append(f"{_RULE}\n{package} ({files})\n{_RULE}\n\n{text}\n")
    return "\n".join(parts)


def components() -> list[dict[str, Any]]:
    """As CycloneDX has them, with the digest of each file."""
    found = []
    for package, names in _libraries().items():
        name, _, version = package.rpartition("@")
        digests = {ours: digest for ours, digest in ASSETS.values() if ours in names}
        place = name.replace("@", "%40")
        found.append(
            {
                "type": "library",
                "bom-ref": package,
                "name": name,
                "version": version,
                "purl": f"pkg:npm/{place}@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
                "components": [
                    {
                        "type": "file",
                        "bom-ref": f"{package}/{ours}",
                        "name": f"loadstone/pages/assets/{ours}",
                        "hashes": [{"alg": "SHA-256", "content": digest}],
                    }
                    for ours, digest in digests.items()
                ],
            }
        )
    return found


_VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(f"no CycloneDX 1.6: {error}" if error else 0)
"""


def sbom(tools: Path) -> str:
    """The bill: what stands in this environment by cyclonedx-py of `tools`, and what is carried."""
    words = [tools / "cyclonedx-py", "environment", "--pyproject", ROOT / "pyproject.toml"]
    words += ["--sv", "1.6", "--output-reproducible", sys.executable]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    bill["components"] += components()
    text = json.dumps(bill, indent=2) + "\n"
    subprocess.run([tools / "python", "-c", _VALIDATE], input=text, text=True, check=True)
    return text


def main() -> int:
    """Writes the licences, or a bill."""
    parser = argparse.ArgumentParser(prog="python -m tests.third_party", description=__doc__)
    parser.add_argument("--write", action="store_true", help="THIRD_PARTY_LICENSES.txt")
    parser.add_argument("--sbom", type=Path, metavar="FILE", help="a bill of materials")
    parser.add_argument("--tools", type=Path, metavar="BIN", help="where cyclonedx-py is")
    args = parser.parse_args()
    if args.write:
        FILE.write_text(licences(), encoding="utf-8")
    if args.sbom:
        args.sbom.parent.mkdir(exist_ok=True)
        args.sbom.write_text(sbom(args.tools or Path(sys.executable).parent), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
