# SPDX-License-Identifier: Apache-2.0
"""`loadstone generate`: text as it grows and its speed, JSON, standard input, mistakes."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

import loadstone
from loadstone.cli import main
from tests.language.texts import small
from tests.sample_model import copy_model


def test_a_text_and_its_speed(capsys: pytest.CaptureFixture[str]) -> None:
    made = loadstone.generate(small()[1], "in the", tokens=5)
    assert main(["generate", str(small()[1]), "in the", "--tokens", "5"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"in the{made.text}\n\n5 tokens behind 2 of the prompt")
    assert f"{made.cycles_per_token:,} cycles a token at 200 MHz" in said
    assert [line.split()[0] for line in said.splitlines()[-3:]] == ["vtaq-1x16x16", "host", "both"]


def test_as_json_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("the"))
    words = ["--json", "--tokens", "4", "--temperature", "1.5", "--seed", "3"]
    assert main(["generate", str(small()[1]), "-", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    made = loadstone.generate(small()[1], "the", tokens=4, temperature=1.5, seed=3)
    for name in ("text", "cycles_per_token"):
        assert found[name] == getattr(made, name)
    assert found["tokens"] == list(made.tokens)


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_model().save(tmp_path / "copy.lds")
    gguf, artifact = map(str, small())
    alone = shutil.copy(artifact, tmp_path / "alone.lds")
    for words, why in (
        ([str(tmp_path / "copy.lds"), "x"], "takes no tokens"),
        ([str(alone), "x"], "alone.words.json is missing"),
        ([gguf, "x"], "loadstone compile"),
        ([artifact, ""], "empty word"),
        ([artifact, "x", "--device", "nowhere"], "is not one of"),
        ([artifact, "x" * 99], "99 tokens are more than the 24 places"),
    ):
        assert main(["generate", *words]) == 2, words
        said = capsys.readouterr()
        assert why in said.err
        assert said.err.count("\n") == 1
        assert not said.out


def test_on_a_device_that_counts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(small()[1]), "in", "--tokens", "2", "--device", "null"]) == 0
    assert "measured on this machine: it counts no cycles" in capsys.readouterr().out
