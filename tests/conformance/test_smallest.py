# SPDX-License-Identifier: Apache-2.0
"""conformance/smallest.py and the command: a back end that was made wrong has the network of which
nothing can be left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.backend.plugins import load_plugins
from loadstone.backend.target import Target, resolve
from loadstone.backend.template import backend as template
from loadstone.cli import main
from loadstone.conformance import check
from loadstone.conformance import smallest as module
from loadstone.conformance.check import CASES, Verdict, conform, judged
from loadstone.conformance.smallest import Smallest, smallest

TEXT = Path(template.__file__).read_text(encoding="utf-8")
#: One change to the template, and what is least about the network that shows it: spoilt, the
#: number of operators, the weights of the first.
WRONG = {
    "zero point": ('"zero_point": zero_out', '"zero_point": zero_out + 1', 1, [0]),
    "clamp": ('"low": call["low"]', '"low": -128', 1, None),
    "sign": ("acc = convolve(", "acc = -convolve(", 1, [1]),
    "second layer": (
        "constants.pop(0) for _ in range(4)", "constants[k] for k in range(4)", 2, None,
    ),
}  # fmt: skip


def spoiled(folder: Path, before: str, after: str) -> Target:
    assert TEXT.count(before) == 1
    (folder / "npu.py").write_text(TEXT.replace(before, after), encoding="utf-8")
    return resolve("my-npu", load_plugins([folder], installed=False))


@pytest.mark.parametrize("fault", WRONG)
def test_the_smallest_network_that_shows_a_fault(fault: str, tmp_path: Path) -> None:
    before, after, operators, weights = WRONG[fault]
    target = spoiled(tmp_path, before, after)
    found = smallest(target, list(conform(target, 1)))
    assert found is not None
    assert len(found.graph.operators) == operators
    first = found.graph.operators[0]
    assert isinstance(first, g.Conv2D)
    assert first.input.size <= 9
    if weights is not None:
        assert first.weights.ravel().tolist() == weights
        assert not first.bias.any()
    assert judged(found.graph, found.kind, target, {}).why == found.why
    again = smallest(target, [Verdict(found.kind, "", "wrong", found.why)])
    assert again is not None
    assert again.words == found.words


def test_a_wrong_definition_of_one_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """On VTA, which is right: the judge is spoiled. Other kinds are drawn in no search."""
    right = check.rounded_network

    def wrong(graph: g.Graph, *rest: Any) -> Any:
        network = right(graph, *rest)
        for operator in graph.operators:
            if isinstance(operator, g.Mul):
                network.values[operator.output.name] = network.values[operator.output.name] ^ 1
        return network

    monkeypatch.setattr(check, "rounded_network", wrong)
    monkeypatch.setattr(check, "CASES", {kind: CASES[kind] for kind in ("add", "mul")})
    target = resolve("vtaq-tiny")
    found = smallest(target, list(conform(target, 2)))
    assert found is not None
    assert found.kind == "mul"
    assert [type(operator) for operator in found.graph.operators] == [g.Mul]
    assert found.graph.inputs[0].shape == (1, 3, 3, 1)


def test_nothing_is_wrong_or_no_network_shows_it() -> None:
    right = resolve("vtaq-tiny")
    assert smallest(right, [Verdict("conv2d", "pattern conv2d", "refused", "so")]) is None
    assert smallest(right, [Verdict("reaches", "instruction", "wrong", "named: none")]) is None


def test_the_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a number of networks, with the least that was found until then."""
    target = spoiled(tmp_path, *WRONG["sign"][:2])
    asked: list[str] = []

    def counted(*arguments: Any) -> Verdict:
        asked.append(arguments[1])
        return judged(*arguments)

    monkeypatch.setattr(module, "judged", counted)
    monkeypatch.setattr(module, "TRIALS", 5)
    found = smallest(target, [Verdict("conv2d", "", "wrong", "1 of 2 elements differ")])
    assert isinstance(found, Smallest)
    assert len(asked) <= 5


def test_the_command_states_and_saves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file goes through compile and compare, which finds the layer; nothing else is left in
    the folder."""
    spoiled(tmp_path, *WRONG["sign"][:2])
    plugins = ["--uma-backends", str(tmp_path)]
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    assert main(["conform", "my-npu", *plugins, "--cases", "2", "--save", "wrong.onnx"]) == 1
    (line,) = (row for row in capsys.readouterr().out.splitlines() if row.startswith("SMALLEST"))
    assert "SMALLEST conv2d: 31 of 36 elements differ: y[1x3x3x1 int8" in line
    assert line.endswith("(written to wrong.onnx)")
    assert sorted(path.name for path in work.iterdir()) == ["wrong.npz", "wrong.onnx"]
    samples = np.load("wrong.npz")
    assert sorted(samples.files) == ["in0", "out0"]
    command = ["compile", "wrong.onnx", "--target", "my-npu", *plugins, "-o", "wrong.lds"]
    assert main(command) == 0
    capsys.readouterr()
    compare = ["compare", "wrong.lds", "--inputs", "wrong.npz", "--against", "wrong.onnx", *plugins]
    assert main(compare) == 1
    assert "y" in capsys.readouterr().out
    assert main(["conform", "my-npu", *plugins, "--cases", "2", "--json"]) == 1
    *_, last = json.loads(capsys.readouterr().out)
    assert (last["outcome"], last["kind"], last["saved"]) == ("smallest", "conv2d", "")
    assert main(["conform", "my-npu", *plugins, "--save", "wrong.txt"]) == 2
    assert "the file is ONNX: call it NAME.onnx" in capsys.readouterr().err


def test_without_hypothesis_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoiled(tmp_path, *WRONG["sign"][:2])
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert main(["conform", "my-npu", "--uma-backends", str(tmp_path), "--cases", "1"]) == 1
    out = capsys.readouterr().out
    assert "SMALLEST: not looked for: hypothesis is not installed: pip install" in out
