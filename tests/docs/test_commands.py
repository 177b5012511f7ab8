# SPDX-License-Identifier: Apache-2.0
"""Every `loadstone` command that a page, the README or a help text shows is one that the command
line takes: its name, its options, their values where they are a choice.

What a page prints below a command in a `console` block is executed (test_tutorial.py), and so are
the pages with tests of their own; a command of any other block must at least be read.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone import cli
from loadstone.cli import COMMANDS
from loadstone.errors import LoadstoneError
from tests.conftest import ROOT

PAGES = sorted(
    [
        *ROOT.glob("docs/*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *ROOT.glob("docs/examples/**/*.md"),
    ]
)
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(loadstone [^`]+)`")
#: What a page calls a name that the reader fills in.
PLACEHOLDERS = re.compile(r"\b(COMMAND|\.\.\.)")


def commands_of(text: str) -> Iterator[str]:
    """Each as one line, without what a shell does with it."""
    shown = [line for block in BLOCK.findall(text) for line in joined(block)]
    shown += INLINE.findall(text)
    for line in shown:
        for part in re.split(r"\s(?:&&|\|\||[|&;])(?:\s|$)", line):
            words = re.sub(r"^[$!\s]*(?:\S*/)?(?=loadstone )", "", part.strip())
            if words.startswith("loadstone "):
                yield re.split(r"\s+(?:#|[0-9]?>|<\()| {2,}", words)[0]


def joined(block: str) -> list[str]:
    return re.sub(r"\\\n\s*", " ", block).splitlines()


def complaint(command: str) -> str | None:
    """What is wrong with it; None: nothing."""
    words = shlex.split(command, comments=True)[1:]
    if not words or PLACEHOLDERS.search(command):
        return None
    if words[0] in ("--help", "--version"):
        return None
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]}"
    if len(words) == 1:
        return None
    if "--uma-backends" in words:  # of a folder that the reader makes
        at = words.index("--uma-backends")
        words = words[:at] + words[at + 2 :]
        words = shlex.split(re.sub(r"--target-\S+ \S+", "", shlex.join(words)))
    return _parsed(words)


class _Refused(Exception):
    pass


def _parsed(words: list[str]) -> str | None:
    def refuse(self: argparse.ArgumentParser, message: str) -> None:
        raise _Refused(message)

    parser = cli._parser(words)
    kept, argparse.ArgumentParser.error = argparse.ArgumentParser.error, refuse  # type: ignore[method-assign,assignment]
    own, cli._Parser.error = cli._Parser.error, refuse  # type: ignore[method-assign,assignment]
    try:
        parser.parse_args(words)
    except (_Refused, LoadstoneError) as error:
        text = str(error)
        # A text that names an option or two does not show all that a command needs.
        return None if "arguments are required" in text else text
    except SystemExit:  # --help
        return None
    finally:
        argparse.ArgumentParser.error = kept  # type: ignore[method-assign]
        cli._Parser.error = own  # type: ignore[method-assign]
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_are_taken(page: Path) -> None:
    found = {c: complaint(c) for c in commands_of(page.read_text(encoding="utf-8"))}
    assert {command: why for command, why in found.items() if why} == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_help_text_are_taken(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    examples = said[said.index("\nexamples:\n") :].split("\n\n")[0]
    found = {c: complaint(c) for c in commands_of(f"```\n{examples}\n```")}
    assert found
    assert {shown: why for shown, why in found.items() if why} == {}


def test_a_stale_command_is_found() -> None:
    text = "```bash\nloadstone run a.lds --inputs x.npz --exect y | head\n```\n`loadstone nope`"
    first, second = commands_of(text)
    assert "--exect" in (complaint(first) or "")
    assert complaint(second) == "there is no command nope"
    assert complaint("loadstone run m.lds --inputs x.npz --device uio:/dev/uio0") is None
