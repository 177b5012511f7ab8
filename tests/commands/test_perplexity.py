# SPDX-License-Identifier: Apache-2.0
"""`loadstone perplexity`: figures for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from loadstone.cli import main
from loadstone.language.perplexity import perplexity
from tests.language.texts import small


def test_beside_float(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, artifact = small()
    (file := tmp_path / "t.txt").write_text("the thing in the king")
    words = ["perplexity", str(artifact), str(file)]
    made = perplexity(artifact, [file], against=path)
    assert main([*words, "--against", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made.to_json()
    assert main([*words, "--against", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(
        f"perplexity {made.perplexity:.2f}, {made.tokens} tokens in 1 windows"
    )
    assert said[1].startswith(f"float32    {made.perplexity_float:.2f}: ")
    assert main([*words, "--tokens", "5"]) == 0
    assert "float" not in capsys.readouterr().out
    assert main(["perplexity", str(artifact), str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
