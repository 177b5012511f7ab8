# SPDX-License-Identifier: Apache-2.0
"""figures.toml: every part of README.md and docs/performance.md with figures has a command or a
reason, every text stands in its page, and the cheap figures are those that are printed now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import figures
from tests.figures import Command, Figure, Outcome, commands, elsewhere, outcomes, parts

PAGES = ("README.md", "docs/performance.md")
CHEAP = [command for command in commands() if command.cheap]
#: What is no figure: code, addresses of links, names of networks and devices, versions.
NO_FIGURES = re.compile(
    r"MobileNetV2 224|`[^`]*`|\]\([^)]*\)|\b\w*[A-Za-z]-?\d[\w.]*|\b\d+-bit|```.*?```", re.DOTALL
)


def test_every_text_stands_once_in_its_page() -> None:
    for command in commands():
        for figure in command.figures:
            assert re.fullmatch(r"[\d,]+(\.\d+)?", figure.stated()), figure
            assert re.compile(figure.prints).groups == 1, figure


@pytest.mark.parametrize("page", PAGES)
def test_every_part_with_figures_has_a_command_or_a_reason(page: str) -> None:
    reasons = {part for where, part in elsewhere() if where == page}
    texts = [f.says.partition("{}") for c in commands() for f in c.figures if f.page == page]
    missing, there = [], set()
    for name, text in parts(page):
        there.add(name)
        flat = " ".join(text.split())
        made = any(before in flat and after in flat for before, _, after in texts)
        if re.search(r"\d", NO_FIGURES.sub("", text)) and not made and name not in reasons:
            missing.append(name)
    assert missing == []
    assert reasons <= there, f"no part of {page}: {sorted(reasons - there)}"


@pytest.mark.parametrize("command", CHEAP, ids=lambda command: command.figures[0].says)
def test_a_cheap_figure_is_what_is_printed_now(command: Command, shared: Path) -> None:
    drifted = [one.line() for one in outcomes(command, command.output()) if one.drifted]
    assert drifted == []


def test_models_are_where_other_tests_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "SHARED", tmp_path)
    assert Command("echo {models}x", ()).output() == f"{tmp_path}/models/x\n"


@pytest.mark.parametrize(
    ("stated", "printed", "times", "measured", "drifted"),
    [
        ("71,727", "71727 cycles", 1, False, False),
        ("71,727", "71728 cycles", 1, False, True),
        ("68", "68.4 cycles", 1, False, False),
        ("68.1", "68.16 cycles", 1, False, True),
        ("11.9", "11,912,345 cycles", 1e-6, False, False),
        ("3.2", "9.9 cycles", 1, True, False),
        ("3.2", "no such thing", 1, True, True),
    ],
)
def test_what_drifted_is_found(
    stated: str, printed: str, times: float, measured: bool, drifted: bool, tmp_path: Path
) -> None:
    (tmp_path / "page.md").write_text(f"It takes {stated}\ncycles here.")
    figure = Figure("page.md", "takes {} cycles", r"([\d,.]+) cycles", times, measured)
    assert figure.stated(tmp_path) == stated
    one = Outcome(figure, stated, figure.made(printed))
    assert one.drifted == drifted
    assert ("DRIFTED" in one.line()) == drifted


def test_a_text_that_is_not_there_or_twice_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, times in (("nothing", 0), ("takes 1 cycles, takes 2 cycles", 2)):
        page.write_text(text)
        with pytest.raises(ValueError, match=f"stands there {times} times"):
            Figure("page.md", "takes {} cycles", "(x)").stated(tmp_path)
