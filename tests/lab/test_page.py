# SPDX-License-Identifier: Apache-2.0
"""lab/page/: the lab as a visitor uses it, in headless Chromium, where `make lab` has built it.

LOADSTONE_SCREENSHOTS names a folder that keeps pictures at both widths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.board import models
from tests.conftest import ROOT
from tests.devtools import Page, served
from tests.lab.conftest import SOLUTIONS

WIDTHS = (1280, 400)
READY = "document.body.dataset.ready === 'true'"


@pytest.fixture(scope="module", params=WIDTHS)
def page(
    request: pytest.FixtureRequest, lab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    with served(lab) as address, Page(tmp_path_factory.mktemp("page")) as opened:
        opened.resize(request.param)
        opened.open(f"{address}/index.html", READY)
        yield opened
        assert opened.errors == []


def tab(page: Page, name: str) -> None:
    page.evaluate(f"location.hash = '{name}'")
    page.wait(f"document.body.dataset.tab === '{name}'")


def pictured(page: Page, name: str) -> None:
    """The page is no wider than its window; a picture of it where they are kept."""
    width = page.evaluate("innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if folder := os.environ.get("LOADSTONE_SCREENSHOTS"):
        page.picture(Path(folder).resolve() / f"lab-{name}-{width}.png")


def count(page: Page, selector: str) -> int:
    found = page.evaluate(f"document.querySelectorAll({selector!r}).length")
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("name", SOLUTIONS)
def test_an_exercise_is_solved(page: Page, name: str) -> None:
    tab(page, name)
    page.click("#run")  # as the visitor finds it
    assert page.evaluate("document.body.dataset.solved") == "false"
    assert count(page, "#verdict li:not(.ok)") > 0
    page.type("#program", SOLUTIONS[name])
    page.click("#run")
    assert page.evaluate("document.body.dataset.solved") == "true"
    assert count(page, "#verdict li:not(.ok)") == 0
    assert count(page, "nav button[aria-current].solved") == 1
    lines = [line for line in SOLUTIONS[name].splitlines() if line and line[0] != "#"]
    assert count(page, "#listing li") == count(page, "#timeline rect:not(.wait)") == len(lines)
    assert count(page, "#dram .wrong") == 0
    pictured(page, name)


def test_a_race_is_shown_and_stepped_through(page: Page) -> None:
    tab(page, "race")
    page.click("#again")
    page.click("#run")
    assert count(page, "#listing li.bad") == 2
    tokens = []
    for _ in range(11):
        tokens.append(page.evaluate("document.querySelector('#tokens b').textContent"))
        page.click("#back")
    assert tokens == list("00000010100")  # load to compute, from the last step to the first
    assert page.evaluate("document.querySelector('#at').textContent") == "0 of 11 instructions"
    page.click("#timeline rect.compute:not(.wait)")
    assert page.evaluate("document.querySelector('#listing .now').value") == 0
    pictured(page, "raced")


def test_a_program_is_kept_until_the_visitor_begins_again(page: Page) -> None:
    tab(page, "copy")
    page.type("#program", "finish")
    tab(page, "add")
    tab(page, "copy")
    assert page.evaluate("document.querySelector('#program').value") == "finish"
    page.click("#again")
    assert "load uop" in str(page.evaluate("document.querySelector('#program').value"))


def test_the_visitors_artifact_gives_the_native_bytes_and_cycles(
    page: Page, shared: Path, tmp_path: Path
) -> None:
    network = models.resnet8(shared)
    file, data = tmp_path / "resnet8.lds", tmp_path / "x.bin"
    network.artifact.save(file)
    data.write_bytes(np.ascontiguousarray(network.inputs[0]).tobytes())
    tab(page, "artifact")
    page.choose("#data", data)
    page.choose("#file", file)
    page.wait("document.querySelector('#layers tr')")
    assert page.evaluate("document.body.dataset.output") == network.outputs[0].hex()
    assert page.evaluate("document.body.dataset.cycles") == str(network.cycles[0])
    assert count(page, "#layers button") > 10
    page.click("#layers tr:nth-child(3) button")
    page.click("#forward")
    at = str(page.evaluate("document.querySelector('#at').textContent"))
    assert re.match(r"\d+ of 650: \d+: load ", at), at
    assert count(page, "#scratchpads canvas") == 4
    pictured(page, "artifact")


def test_what_is_no_artifact_is_refused_in_one_line(page: Page, tmp_path: Path) -> None:
    (tmp_path / "no.lds").write_bytes(bytes(300))
    tab(page, "artifact")
    page.choose("#file", tmp_path / "no.lds")
    page.wait("document.querySelector('#verdict li:not(.ok)')")
    text = page.evaluate("document.querySelector('#verdict').textContent")
    assert text == "not a Loadstone artifact"


def test_the_page_says_nothing_to_others() -> None:
    for path in sorted((ROOT / "lab/page").iterdir()):
        found = re.findall(r"https?://[^\s\"'<>,]+", path.read_text(encoding="utf-8"))
        assert set(found) <= {"http://www.w3.org/2000/svg", "http://127.0.0.1:8000/lab/"}, path.name
