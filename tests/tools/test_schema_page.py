# SPDX-License-Identifier: Apache-2.0
"""tools/schema_page.py: docs/json.md is current, and names every command and its fields."""

from __future__ import annotations

import json

from loadstone.cli import COMMANDS
from tools.schema_page import FOLDER, PAGE, main, text


def test_the_page_is_current() -> None:
    assert main(["--check"]) == 0
    assert PAGE.read_text(encoding="utf-8") == text()


def test_every_command_and_its_fields_are_there() -> None:
    parts = dict(part.split(" --json`", 1) for part in text().split("\n## `loadstone ")[1:])
    assert parts.keys() == COMMANDS.keys()
    for name, said in parts.items():
        schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        for way in schema.get("anyOf", [schema]):
            shown = way.get("items", way)
            for field in shown.get("properties", {}):
                assert f"| `{field}` |" in said, (name, field)
