# SPDX-License-Identifier: Apache-2.0
"""Two seconds of libFuzzer with ASan and UBSan on the simulator, a minute in `make test-all`
(`make fuzz SECONDS=600` for more of everything); mutants of models, devices, packets,
language models."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.board.tools import missing, need
from tests.fuzz.__main__ import build, fuzz
from tests.repeat import ALL, times


@pytest.mark.full
def test_arbitrary_streams_and_configurations_find_nothing(tmp_path: Path) -> None:
    need("clang++", "clang libclang-rt-14-dev")
    try:
        target = build(tmp_path, "-O1" if ALL else "-O0")
    except subprocess.CalledProcessError:
        missing("libFuzzer is missing: apt-get install libclang-rt-14-dev")
    assert fuzz(target, times(2, 60), tmp_path) == 0


def test_mutants_of_models_are_equal_or_refused(figure: Callable[[str], None]) -> None:
    """The first eight of each format; in `make test-all` as many as a minute takes, and with
    `python -m tests.fuzz.models --seconds 600` as ten do."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from tests.fuzz import models

    counts, bad = models.fuzz(60) if ALL else models.fuzz(600, count=8)
    figure(f"mutants of models: {dict(sorted(counts.items()))}")
    assert not bad, "\n".join(bad)
    assert counts["tflite equal"] > 0
    assert counts["onnx equal"] > 0
    assert "pt2" not in models.FORMATS or counts["pt2 equal"] > 0


def test_mutants_of_every_tflite_operator_are_equal_or_refused(
    figure: Callable[[str], None],
) -> None:
    """Other options, types, shapes, constants and bytes; once ten thousand, with
    `python -m tests.fuzz.tflite_operator_mutants --count 10000`."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    from tests.fuzz import tflite_operator_mutants

    counts, bad = tflite_operator_mutants.fuzz(times(30, 1000))
    figure(f"mutants of TFLite operators: {dict(sorted(counts.items()))}")
    assert not bad, "\n".join(bad)
    assert counts["equal"] > 0


def test_a_mutant_is_the_same_each_time_and_its_number_finds_it() -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    from tests.fuzz import models

    for kind in models.FORMATS:
        assert models.mutant(kind, 3).model == models.mutant(kind, 3).model
        assert models.mutant(kind, 3).model != models.mutant(kind, 4).model


#: Mutants that were different or a traceback once, or could not be made: format, number.
MENDED = {
    "tflite": (623, 666, 823, 992, 1438, 1728, 2934, 4539, 8995),
    "onnx": (1143, 1581, 2112, 2678, 2886, 3060, 4271, 4290, 4654, 5379, 5609, 7799, 13408),
}


def test_mutants_that_were_wrong_are_right(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from tests.fuzz import models

    ours, theirs = models.workers(tmp_path)
    with ours, theirs:
        for kind, numbers in MENDED.items():
            for number in numbers:
                said = models.verdict(models.mutant(kind, number), ours, theirs)
                assert said[0] not in models.BAD, (kind, number, said)


def test_what_is_wrong_with_a_mutant_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong element, an exception, a hang and a signal each get their verdict."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    from tests.fuzz import models

    case = models.mutant("tflite", 0)
    outputs = [np.arange(10, dtype=np.int8)]
    monkeypatch.setattr(models, "_framework", lambda _: ("done", outputs))

    def after(work: Callable[[], list[np.ndarray]]) -> str:
        monkeypatch.setattr(models, "_compile_and_run", lambda *_: ("done", work()))
        ours, theirs = models.workers(tmp_path, timeout_seconds=5)
        with ours, theirs:
            return models.verdict(case, ours, theirs)[0]

    assert after(lambda: outputs) == "equal"
    assert after(lambda: [outputs[0] + np.int8(outputs[0] == 7)]) == "different"
    assert after(lambda: [outputs[0].astype(np.int32)]) == "different"
    assert after(lambda: [np.zeros(1 // 0)]) == "traceback"
    assert after(lambda: os.kill(os.getpid(), 11) or outputs) == "traceback"
    assert after(lambda: time.sleep(100) or outputs) == "hang"


@pytest.mark.parametrize("what", ["devices", "packets", "language"])
def test_what_anybody_may_say_is_answered_or_refused(
    what: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    from importlib import import_module

    if what == "language":
        pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
        pytest.importorskip("tokenizers", reason="not installed (the extra `language`)")
    counts, wrong = import_module(f"tests.fuzz.{what}").fuzz(times(2, 60), tmp_path)
    figure(f"{what}: {dict(sorted(counts.items()))}")
    assert not wrong, wrong[:3]
    assert sum(counts.values()) > 10
