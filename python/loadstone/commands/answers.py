# SPDX-License-Identifier: Apache-2.0
"""What a command answers, as lines for a person or as one JSON value for a program.

In:   the value that the command's schema in commands/schemas describes, and its lines.
Out:  either of them on stdout.
Next: every command; docs/json.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable

from loadstone.files import JsonObject, JsonValue

__all__ = ["Steps", "add_json_option", "answer", "json_text"]


def add_json_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Adds --json."""
    parser.add_argument("--json", action="store_true", help="as JSON (docs/json.md)")


def json_text(value: JsonValue) -> str:
    """JSON, indented. What JSON has no number for, infinities and what is no number, is null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def answer(args: argparse.Namespace, value: JsonObject, lines: Iterable[str]) -> None:
    """Prints the value where --json is given, else the lines; who reads them has them behind it."""
    for line in [json_text(value)] if args.json else lines:
        print(line)
    print(end="", flush=True)


class Steps:
    """Steps that take a while: each is a line as soon as it is done, and all are one value at the
    end."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._as_json, self._done = bool(args.json), list[dict[str, str]]()

    def done(self, step: str, said: str) -> None:
        """One step. said: a line, or a few."""
        self._done.append({"step": step, "said": said})
        if not self._as_json:
            print(f"{step:<11}" + said.replace("\n", "\n" + 11 * " "), flush=True)

    def end(self, equal: bool) -> int:
        """Prints the value; the exit status. equal: whether nothing was found to differ."""
        if self._as_json:
            print(json_text({"steps": self._done, "equal": equal}))
        return 0 if equal else 1
