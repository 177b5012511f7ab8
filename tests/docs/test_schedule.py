# SPDX-License-Identifier: Apache-2.0
"""docs/schedule.md: its commands and its program, run in order, with a smaller network in place of
MobileNetV2; and the calls of its C code, which are those of the header."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.cli import main
from tests.conftest import ROOT
from tests.docs.test_commands import joined

PAGE = (ROOT / "docs" / "schedule.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python|c)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
#: What the page calls them -> files in ../shared/models. Both are small.
NETWORKS = {"kws": "mlpt_kws_int8", "mobilenet_v2": "mlpt_resnet8_int8"}


@contextlib.contextmanager
def served(line: str) -> Iterator[None]:
    """A command in the background, which ends by itself."""
    *words, arrow, output, _ = shlex.split(line)
    assert arrow == ">"
    with (
        open(output, "w", encoding="utf-8") as out,
        subprocess.Popen(
            [sys.executable, "-m", *words], stdout=out, stderr=subprocess.PIPE, text=True
        ) as child,
    ):
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == "sim at npu.sock\n"
            yield
            assert child.wait(timeout=60) == 0
        finally:
            child.kill()


def test_the_commands_and_the_program_run_in_order(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, file in NETWORKS.items():
        shutil.copy(shared / "models" / f"{file}.tflite", f"{name}.tflite")
    np.savez("x.npz", in0=np.zeros((3, 1, 49, 10, 1), np.int8))
    np.savez("y.npz", in0=np.zeros((1, 1, 32, 32, 3), np.int8))
    said = []
    for kind, block in BLOCKS:
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, "docs/schedule.md", "exec"), {})
            said.append(printed.getvalue())
        with contextlib.ExitStack() as servers:
            for line in joined(block) if kind == "bash" else ():
                if line.endswith(" &"):
                    servers.enter_context(served(line))
                else:
                    assert main(shlex.split(line)[1:]) == 0, line
    assert [kind for kind, _ in BLOCKS].count("bash") == 6
    assert json.loads(Path("served.log").read_text()) == {
        "networks": 2,
        "runs": 4,
        "refused": 0,
        "failures": 0,
        "dropped": 0,
    }
    (text,) = said
    found = re.fullmatch(r"\[Response\(released=1000000, time=(\d+), error=None\)\] (\d+)\n", text)
    assert found is not None, text
    assert 0 < int(found[1]) == int(found[2])


def test_the_header_has_what_the_c_code_calls() -> None:
    (block,) = (block for kind, block in BLOCKS if kind == "c")
    (header,) = ROOT.glob("runtime/**/lds_schedule.h")
    declared = header.read_text(encoding="utf-8")
    names = set(re.findall(r"\blds_\w+", block))
    assert len(names) >= 8
    assert {name for name in names if not re.search(rf"\b{name}\b", declared)} == set()
