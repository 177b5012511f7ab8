# SPDX-License-Identifier: Apache-2.0
"""third_party.py: the licences of all that a wheel carries, and the bill of materials."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from tests import third_party
from tests.page_assets import ASSETS, FOLDER


def test_the_file_holds_every_licence_in_full() -> None:
    text = third_party.FILE.read_text(encoding="utf-8")
    assert text == third_party.licences(), "python -m tests.third_party --write"
    for licence in FOLDER.glob("*.LICENSE"):
        assert licence.read_text(encoding="utf-8").strip() in text


def test_every_foreign_file_is_a_component_with_its_digest() -> None:
    """None stands there that is not listed, and what is listed is what stands there."""
    files = [file for found in third_party.components() for file in found["components"]]
    digests = {f["name"].rpartition("/")[2]: f["hashes"][0]["content"] for f in files}
    there = {path.name for path in FOLDER.iterdir()} - {"README.md"}
    assert digests.keys() == there == {name for name, _ in ASSETS.values()}
    for name, digest in digests.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_the_bill_names_what_is_installed_and_what_is_carried() -> None:
    """By CycloneDX's own tool and schema."""
    tools = Path(sys.executable).parent
    places = [tools, tools.parent / "sbom" / "bin"]
    found = next((p for p in places if shutil.which("cyclonedx-py", path=str(p))), None)
    if found is None:
        pytest.skip("cyclonedx-py is not installed: make sbom")
    bill = json.loads(third_party.sbom(found))
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "loadstone"
    names = {component["name"] for component in bill["components"]}
    assert {"numpy", "cffi", "uplot", "@dagrejs/dagre"} <= names
