# SPDX-License-Identifier: Apache-2.0
"""demo/text.py: the network in the repository writes; the whole demo runs, and its page is true."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.cli import main
from loadstone.compiler import Compiled
from loadstone.demo import text
from tests.conftest import ROOT
from tests.repeat import more

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

PAGE = ROOT / "docs/generate-text.md"


def test_the_network_in_the_repository_writes_sentences_of_the_grammar() -> None:
    written = text.written_by_onnx_runtime(text.network_path(), 200)
    right, count = text.sentences_right(written.text)
    assert right == count >= 3
    assert written.scores.shape == (200, 29)
    assert text.network_path().stat().st_size < 1_150_000


def test_sentences_are_counted_up_to_the_last_full_stop() -> None:
    assert text.sentences_right("the robot finds a box. the robot finds. the rob") == (1, 2)


def test_a_number_of_tokens_below_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "text", "--tokens", "0"]) != 0
    assert "--tokens 0" in capsys.readouterr().err
    assert main(["demo", "text", "--tokens", "9" * 20]) != 0  # it began, and would never have ended
    assert f"--tokens {'9' * 20} is not in [1, 100000]" in capsys.readouterr().err


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Compiled]:
    model = tmp_path_factory.mktemp("text") / "text.int8.onnx"
    text.quantized().save(model)
    return model, text.compiled(model, "vtaq-1x16x16")


@more
def test_every_product_is_on_the_device_and_every_step_runs_in_c(
    int8: tuple[Path, Compiled],
) -> None:
    found = int8[1]
    assert found.python_steps == []
    rows = found.explain()
    assert sum(row["macs"] for row in rows) == 793_856
    assert all(row["where"] != "host" for row in rows if row["macs"])
    for operator in found.graph.operators:
        assert not isinstance(operator, g.Host) or "matmul" not in operator.operators
    names = {found.artifact.tensors[k].name for k in found.artifact.inputs}
    assert names == {"symbol"}
    assert not names & text.STATES.keys()


@more
def test_256_tokens_are_onnx_runtime_s(int8: tuple[Path, Compiled]) -> None:
    model, found = int8
    mine, wanted = (
        text.written_by_simulator(found, 256),
        text.written_by_onnx_runtime(model, 256),
    )
    assert mine.text == wanted.text
    differing = (mine.scores != wanted.scores).any(1)
    assert np.count_nonzero(differing) < 32  # ONNX Runtime sums in float32
    right, count = text.sentences_right(mine.text)
    assert right >= count - 1 >= 3


@more
def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line, but for numbers and the text itself, which a processor's rounding in
    calibration may change."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "text"]) == 0
    printed = capsys.readouterr().out
    shown = re.search(r"\$ loadstone demo text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert shown is not None
    assert [_frame(line) for line in shown[1].splitlines()] == [
        _frame(line) for line in printed.splitlines()
    ]
    rates = [_rate(of) for of in (shown[1], printed)]
    assert abs(rates[0] - rates[1]) < 0.1 * rates[0]


def test_the_page_s_pair_is_the_model_s() -> None:
    """As its line of Python and its command have it."""
    page = PAGE.read_text(encoding="utf-8")
    (python,) = re.findall(r'states=\{"(\w+)": "(\w+)", \.\.\.\}', page)
    (command,) = re.findall(r"`loadstone compile --state (\w+)=(\w+) \.\.\.`", page)
    assert python == command
    assert python in text.STATES.items()


@more
def test_the_page_s_command_compiles_what_its_python_does(
    int8: tuple[Path, Compiled], tmp_path: Path
) -> None:
    model, found = int8
    pairs = [word for pair in text.STATES.items() for word in ("--state", "=".join(pair))]
    command = ["compile", str(model), "--target", "vtaq-1x16x16", *pairs]
    assert main([*command, "-o", str(tmp_path / "text.lds")]) == 0
    assert (tmp_path / "text.lds").read_bytes() == found.artifact.to_bytes()


def _rate(said: str) -> int:
    found = re.search(r"([\d,]+) tokens a second", said)
    assert found is not None
    return int(found[1].replace(",", ""))


def _frame(line: str) -> str:
    if line.startswith("           ."):
        return "the text"
    return re.sub(r"\d+(?:[.,]\d+)*", "N", line)
