# SPDX-License-Identifier: Apache-2.0
"""The pages that show commands with what they print: executed in order, and compared.

A block of a page that begins with ```console holds commands (`$ ...`) and, below each, its output.
A block ```python title="FILE" (or yaml) is a file that the reader saves. docs/tutorial.md comes
first; the other pages go on in its folder, as their readers do.

pytest tests/docs/test_tutorial.py --update-golden writes the outputs into the pages anew: read the
difference before you commit it. What changes from run to run (seconds, samples per second) is
compared as `N`, and stays in the page as it was.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.forked import tools

#: Pages that go on in the tutorial's folder.
FOLLOWING = ("docs/debug.md", "docs/tune.md", "docs/choose-a-device.md")
BLOCK = re.compile(
    r"^```(console|(?:python|yaml) title=\"([\w.]+)\")\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
#: What a reader's machine decides: times, and what is computed from them.
TIMES = re.compile(r"\d+(?:[.,]\d+)*(?= (?:s|ms|us|a second)\b)")
MOST_SECONDS = 120


def normal(text: str) -> str:
    """What is compared: without times, and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in TIMES.sub("N", text).strip().splitlines())


def environment(folder: Path) -> dict[str, str]:
    """An environment in which `loadstone` and `python` are this checkout's."""
    path = os.pathsep.join([str(tools(folder)), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "python"), "LC_ALL": "C"}


def follow(page: str, folder: Path) -> str:
    """Does what the page says, in `folder`; the page, with what the commands really print."""
    env = environment(folder / ".tools")

    def done(block: re.Match[str]) -> str:
        _, file, body = block.groups()
        if file:
            (folder / file).write_text(body, encoding="utf-8")
            return block[0]
        return f"```console\n{''.join(_session(body, folder, env))}```"

    return BLOCK.sub(done, page)


def _session(body: str, folder: Path, env: dict[str, str]) -> list[str]:
    lines = []
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
        if not part.startswith("$ "):
            assert not part.strip(), f"a console block begins with a command, not with {part!r}"
            continue
        command, _, shown = part.partition("\n")
        run = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command[2:]}"],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        assert run.returncode == 0, f"{command}\n{run.stdout}{run.stderr}"
        printed = "\n".join(line.rstrip() for line in run.stdout.strip("\n").splitlines())
        kept = shown if normal(shown) == normal(printed) else f"{printed}\n" if printed else ""
        lines.append(f"{command}\n{kept}")
    return lines


def compare(name: str, folder: Path, update: bool) -> None:
    """Follows a page; what it shows must be what happens."""
    path = ROOT / name
    page = path.read_text(encoding="utf-8")
    real = follow(page, folder)
    if update and real != page:
        path.write_text(real, encoding="utf-8")
        page = real
    assert page == real, (
        f"{name} shows something else than its commands print: read the difference, then run "
        "pytest tests/docs/test_tutorial.py --update-golden"
    )


pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The tutorial's folder, at its end."""
    folder = tmp_path_factory.mktemp("tutorial")
    compare("docs/tutorial.md", folder, bool(request.config.getoption("--update-golden")))
    return folder


def test_the_tutorial_shows_what_its_commands_print(workshop: Path) -> None:
    assert (workshop / "conv.lds").is_file()


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_page_that_goes_on_from_the_tutorial(
    workshop: Path, name: str, tmp_path: Path, update_golden: bool
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(workshop, folder)
    compare(name, folder, update_golden)


def test_what_differs_is_seen(tmp_path: Path) -> None:
    page = "text\n```console\n$ echo 2 s, 17 cycles\n1 s, {} cycles\n```\n"
    assert follow(page.format(17), tmp_path) == page.format(17)  # the time stays as the page has it
    assert follow(page.format(18), tmp_path) == page.format(17).replace("1 s", "2 s")
    with pytest.raises(AssertionError, match="false"):
        follow("```console\n$ false\n```\n", tmp_path)
