# SPDX-License-Identifier: Apache-2.0
"""conformance/check.py: VTA and the examples pass, and back ends that are wrong are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.backend.plugins import load_plugins
from loadstone.backend.target import resolve
from loadstone.backend.template import backend as template
from loadstone.cli import main
from loadstone.conformance import check
from loadstone.conformance.check import CASES, Verdict, conform
from loadstone.conformance.networks import NETWORKS
from loadstone.conformance.reduction_cases import REDUCTION_CASES
from loadstone.errors import LoweringError
from loadstone.graph import reference as graph_reference
from tests.conftest import ROOT
from tests.repeat import ALL, more, times

TEMPLATE = Path(template.__file__)


def judged(name: str, folder: Path | None = None, cases: int = 3) -> list[Verdict]:
    plugins = load_plugins([folder] if folder else [], installed=False)
    assert plugins.problems == []
    return list(conform(resolve(name, plugins), cases))


def wrong(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome == "wrong"]


def spoiled(tmp_path: Path, before: str, after: str) -> list[Verdict]:
    """The template with one change."""
    text = TEMPLATE.read_text(encoding="utf-8")
    assert text.count(before) == 1
    (tmp_path / "npu.py").write_text(text.replace(before, after), encoding="utf-8")
    return judged("my-npu", tmp_path)


@pytest.mark.parametrize(("device", "cases"), [("vtaq-1x16x16", times(1, 3)), ("vtaq-4x16x16", 1)])
def test_vta_is_right_and_takes_all_but_a_few(device: str, cases: int) -> None:
    verdicts = judged(device, cases=cases)
    assert wrong(verdicts) == []
    refused = set(CASES) - {verdict.kind for verdict in verdicts if verdict.outcome == "taken"}
    never = {"softmax", "transpose", "lookup", "argmax", "quantize", "dequantize"}
    never |= set(REDUCTION_CASES) - {"batch_matmul"}
    assert refused >= never
    assert refused == never or cases < 3


@pytest.mark.full
@pytest.mark.parametrize(
    "device",
    [
        *(pytest.param(device, marks=more) for device in ("vtaq-1x16x16", "vtaq-4x16x16")),
        *("vtaq-1x32x32", "vtaq-tiny", "vta-pynq"),
    ],
)
def test_vta_over_many_cases(device: str) -> None:
    assert wrong(judged(device, cases=times(1, 4))) == []


def judged_most(
    monkeypatch: pytest.MonkeyPatch, name: str, folder: Path, kinds: set[str], cases: int
) -> list[Verdict]:
    """`cases` of these kinds, and one of each other, which the back end leaves to the host; in
    `make test-all` as many of all."""
    if ALL:
        return judged(name, folder, cases)
    verdicts = []
    for chosen, number in ((kinds, cases), (CASES.keys() - kinds, 1)):
        monkeypatch.setattr(check, "CASES", {k: CASES[k] for k in CASES if k in chosen})
        verdicts += judged(name, folder, number)
    # Of a pattern's cases only some are in either part: how many it takes, each part misjudges.
    return [verdict for verdict in verdicts if not verdict.case.startswith("pattern ")]


@pytest.mark.full
def test_the_examples_and_the_template_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = ROOT / "docs/examples"
    convolutions = {"conv2d", "conv2d_edges", "affine", *NETWORKS} - {"autoencoder"}
    of_arrays = convolutions | {"dense", "autoencoder"}
    for name, folder, may, many in (
        ("my-accel", examples / "c_library", convolutions, convolutions),
        # Its simulator takes seconds for a network, which is made of layers that are judged alone.
        ("systolic -dim=4", examples / "systolic", of_arrays, of_arrays - NETWORKS.keys()),
        ("my-npu", tmp_path, convolutions, convolutions),
    ):
        (tmp_path / "npu.py").write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
        verdicts = judged_most(monkeypatch, name, folder, many, 3)
        assert wrong(verdicts) == []
        taken = {verdict.kind for verdict in verdicts if verdict.outcome == "taken"}
        assert {"conv2d", "residual"} <= taken <= may
        assert len(taken) > 5, taken
    kinds = {"dense", "conv2d", "average_pool2d", "max_pool2d"}
    verdicts = judged_most(monkeypatch, "layer-engine", examples / "descriptors", kinds, 3)
    assert wrong(verdicts) == []
    assert [verdict.outcome for verdict in verdicts if verdict.kind == "dense"] == ["taken"] * 3
    taken = {verdict.kind for verdict in verdicts if verdict.outcome == "taken"}
    assert {"conv2d", "average_pool2d", "max_pool2d"} <= taken
    verdicts = judged_most(monkeypatch, "vector-engine", examples / "word_fifo", {"add"}, 4)
    assert wrong(verdicts) == []
    assert {v.kind for v in verdicts if v.outcome != "untried"} == CASES.keys()
    assert any(verdict.outcome == "taken" for verdict in verdicts if verdict.kind == "add")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"zero_point": zero_out', '"zero_point": zero_out + 1', "elements differ"),
        ('"low": call["low"]', '"low": -128', "elements differ"),
        ("acc = convolve(", "acc = -convolve(", "elements differ"),
        ("constants.pop(0) for _ in range(4)", "constants[k] for k in range(4)", "differ|Error"),
        (
            "        calls: list[",
            "        assert not segment.operators\n        calls: list[",
            "AssertionError",
        ),
        ("return [values[name] for", "return [values[name][:, :1] * 0 for", "differ"),
        (
            'f"{self.name}.execute"',
            '"my-npu.absent"',
            "needs the external function",
        ),
    ],
)
def test_a_wrong_back_end_is_found(tmp_path: Path, before: str, after: str, why: str) -> None:
    found = wrong(spoiled(tmp_path, before, after))
    assert found
    assert any(word in verdict.why for verdict in found for word in why.split("|"))


def test_a_pattern_that_is_hardly_taken_is_wrong(tmp_path: Path) -> None:
    """Whatever the reason; what is offered for the sake of its reason says so (Refusal.always)."""
    found = wrong(spoiled(tmp_path, "shape[3] > limit or", "shape[3] > 0 or"))
    assert [verdict.case for verdict in found] == ["pattern conv2d"]
    assert "took 0 of" in found[0].why
    assert "refused with: more than 512 channels" in found[0].why


def test_the_table_of_an_example_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reach that lacks the sums that others are added to: the example itself once lacked it."""
    monkeypatch.setattr(check, "CASES", {"conv2d": CASES["conv2d"]})
    text = (ROOT / "docs/examples/systolic/systolic.py").read_text(encoding="utf-8")
    assert text.count("added, sums)") == 1
    (tmp_path / "npu.py").write_text(text.replace("added, sums)", "sums)"), encoding="utf-8")
    found = wrong(judged("systolic -dim=4", tmp_path))
    assert [verdict.case for verdict in found] == ["instruction compute of systolic"]
    assert "of accumulator (named: " in found[0].why


def test_cases_are_not_vacuous() -> None:
    """Most levels of an output are used, and cases differ."""
    for kind, make in CASES.items():
        texts, levels = set(), set()
        for seed in range(8):
            graph = make(np.random.default_rng(seed))
            texts.add(graph.describe())
            inputs = [
                (
                    np.random.default_rng(1).integers(-128, 128, t.shape)
                    / (64 if t.dtype == "float32" else 1)
                ).astype(t.dtype)
                for t in graph.inputs
            ]
            levels.update(np.unique(graph_reference.run(graph, inputs)[0]).tolist())
        assert len(texts) > 5 or kind in ("argmax", "autoencoder"), kind
        few = {
            "softmax": 3,
            "dense": 20,
            "mean": 10,
            "argmax": 1,
            "classifier": 3,
            "conv2d_edges": 30,
            "affine": 20,
            "l2_normalize": 20,
            "reduce_product": 20,
            "reduce_sum": 20,
        }
        assert len(levels) > few.get(kind, 50), kind


def test_the_command_prints_a_table_and_fails_for_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "npu.py").write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    assert (
        main(
            ["conform", "my-npu -max_channels=16", "--uma-backends", str(tmp_path), "--cases", "1"]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "softmax              0       1     0  no pattern for softmax" in out
    assert "excitation           1       0     0  in part: no pattern for mean" in out
    assert "0 wrong" in out
    text = TEMPLATE.read_text(encoding="utf-8").replace(
        '"zero_point": zero_out', '"zero_point": zero_out - 1'
    )
    (tmp_path / "npu.py").write_text(text, encoding="utf-8")
    assert main(["conform", "my-npu", "--uma-backends", str(tmp_path), "--cases", "2"]) == 1
    assert "WRONG conv2d" in capsys.readouterr().out
    capsys.readouterr()
    assert main(["conform", "vtaq-tiny", "--cases", "0"]) == 2
    assert "1 to 100000 cases" in capsys.readouterr().err


def test_a_pattern_that_is_none_is_one_line(tmp_path: Path) -> None:
    text = TEMPLATE.read_text(encoding="utf-8").replace('offered("conv2d"', 'offered("conv_2d"')
    (tmp_path / "npu.py").write_text(text, encoding="utf-8")
    with pytest.raises(LoweringError, match="offers 'conv_2d', .*: did you mean 'conv2d'"):
        judged("my-npu", tmp_path)
