# SPDX-License-Identifier: Apache-2.0
"""docs/language-models.md: its commands, from a file to a text, with a small model in place of a
large one; and its arithmetic."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from loadstone.cli import main
from tests.conftest import ROOT
from tests.docs.test_commands import BLOCK, commands_of
from tests.frontend.gguf_models import tiny

PAGE = (ROOT / "docs" / "language-models.md").read_text(encoding="utf-8")
WEIGHTS = 134_479_872


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny(Path("model.gguf"), words={}, four="Q4_1", context_length=512)
    Path("text.txt").write_text("the thing in the king, and the ring in the wing")
    blocks = "\n".join(f"```\n{block}```" for block in BLOCK.findall(PAGE))
    commands = [*commands_of(blocks)]
    assert [shlex.split(command)[1] for command in commands] == [
        *("compile", "generate", "generate", "generate"),
        *("perplexity", "compile", "perplexity", "compile", "compile", "export"),
    ]
    said = {}
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
        said[shlex.split(command)[1]] = capsys.readouterr().out
    assert Path("app/decode.c").is_file()
    found = json.loads(said["perplexity"])
    assert found["perplexity"] > found["perplexity_float"] / 2


def test_tokens_a_second_by_arithmetic() -> None:
    rows = re.findall(r"^\| .* \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for most, tokens, part in (map(float, row) for row in rows):
        assert tokens == pytest.approx(most * 1e9 / WEIGHTS, rel=0.02)
        assert part == pytest.approx(0.7 * tokens, rel=0.04)
