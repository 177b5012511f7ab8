# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.figures [WORD ...]`: the figures of README.md and docs/performance.md, made
again: `make figures`.

In:   figures.toml, the pages; commands whose line has one of the words, or all.
Out:  a line for each figure: what the page says, what the command prints now. Exit status 1 when
      one drifted, or when a command has no such figure; a measured one never drifts.
Next: test_figures.py does the cheap ones, and finds sections that have no row.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT, SHARED

__all__ = ["Command", "Figure", "Outcome", "commands", "elsewhere", "outcomes", "parts"]

_TABLE = ROOT / "tests/figures.toml"
_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_HOURS = 2


@dataclass(frozen=True)
class Figure:
    """says: the page's text with {} for the figure. prints: an expression whose group is the figure
    in the command's output. measured: seconds and the like, which no two machines share."""

    page: str
    says: str
    prints: str
    times: float = 1
    measured: bool = False

    def stated(self, root: Path = ROOT) -> str:
        """As the page has it. Raises ValueError where the text does not stand there once."""
        text = (root / self.page).read_text(encoding="utf-8")
        before, after = (re.escape(part).replace(r"\ ", r"\s+") for part in self.says.split("{}"))
        found = re.findall(f"{before}{_NUMBER}{after}", text)
        if len(found) != 1:
            raise ValueError(f"{self.page}: {self.says!r} stands there {len(found)} times")
        return str(found[0])

    def made(self, output: str) -> float | None:
        """From a command's output; None where it does not print it."""
        found = re.search(self.prints, output)
        return float(found[1].replace(",", "")) * self.times if found is not None else None


@dataclass(frozen=True)
class Command:
    """A shell line and the figures that it prints."""

    run: str
    figures: tuple[Figure, ...]
    cheap: bool = False

    def output(self, root: Path = ROOT) -> str:
        """What it prints, errors included, whatever its status."""
        with tempfile.TemporaryDirectory() as folder:
            line = self.run.format(models=f"{SHARED / 'models'}/", tmp=folder)
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            env = {**os.environ, "PATH": path}
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=root,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_HOURS * 3600,
                check=False,
            )
        return done.stdout


@dataclass(frozen=True)
class Outcome:
    """What the page states, and what was made; None: the command did not print it."""

    figure: Figure
    stated: str
    made: float | None

    @property
    def drifted(self) -> bool:
        """Whether what was made, rounded to the digits of the page, is another figure."""
        if self.made is None:
            return True
        if self.figure.measured:
            return False
        digits = len(self.stated.partition(".")[2])
        return f"{self.made:.{digits}f}" != self.stated.replace(",", "")

    def line(self) -> str:
        """For people."""
        made = "not printed" if self.made is None else f"{self.made:,.10g}"
        verdict = "DRIFTED" if self.drifted else "measured" if self.figure.measured else "same"
        text = self.figure.says.format(self.stated)
        return f"{verdict:<9} {self.figure.page}: {text!r} made {made}"


def _table() -> dict[str, list[dict[str, object]]]:
    with _TABLE.open("rb") as file:
        return tomllib.load(file)


def commands() -> list[Command]:
    """Of the table."""
    made = []
    for row in _table()["command"]:
        figures = row.pop("figures")
        assert isinstance(figures, list)
        made.append(Command(figures=tuple(Figure(**one) for one in figures), **row))  # type: ignore[arg-type]
    return made


def elsewhere() -> dict[tuple[str, str], str]:
    """(page, part) -> why its figures are not made here."""
    return {
        (str(row["page"]), part): str(row["why"])
        for row in _table()["elsewhere"]
        for part in list(row["parts"])  # type: ignore[call-overload]
    }


def parts(page: str, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """The sections of a page, in README.md also the points of its list: name and text."""
    text = (root / page).read_text(encoding="utf-8")
    begin = r"^(?:#{2,3} |- \*\*)(.+?)(?:\*\*|$)" if page == "README.md" else r"^#{2,3} (.+)$"
    pieces = re.split(begin, text, flags=re.MULTILINE)
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        yield name, f"{name}{body}"


def outcomes(command: Command, output: str) -> list[Outcome]:
    """Of each of its figures."""
    return [Outcome(f, f.stated(), f.made(output)) for f in command.figures]


def main(words: Sequence[str]) -> int:
    """Makes them; the exit status."""
    drifted = count = 0
    for command in commands():
        if words and not any(word in command.run for word in words):
            continue
        print(f"$ {command.run}", flush=True)
        output = command.output()
        found = outcomes(command, output)
        if all(one.made is None for one in found):
            print(
                f"  printed none of them; its last line: {output.rstrip().rpartition(chr(10))[2]}"
            )
        for one in found:
            print(f"  {one.line()}", flush=True)
        count += len(found)
        drifted += sum(one.drifted for one in found)
    print(f"{count} figures, {drifted} drifted or not printed")
    for (page, part), why in elsewhere().items():
        print(f"not made here: {page}, {part}: {why}")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
