# SPDX-License-Identifier: Apache-2.0
"""decoder_options.py: what `loadstone compile` makes of a .gguf file by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.language.decoder import TextSession, decoder_shape
from tests.frontend.gguf_models import Reference, tiny


def test_rows_and_rotation_are_as_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, artifact = tiny(tmp_path / "m.gguf", words={}), tmp_path / "m.lds"
    words = ["compile", str(path), "-t", "vtaq-1x16x16", "-o", str(artifact)]
    assert main([*words, "--rows", "1", "--rotate", "0", "--shape", "window=8"]) == 0
    found = Artifact.load(artifact)
    assert decoder_shape(found).rows == (1,)
    with TextSession(found) as session:
        assert np.array_equal(session.next([7]), Reference(path, rotate=False).next(7))
    assert artifact.with_suffix(".words.json").is_file()
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["compile", "x.onnx", "-t", "vtaq-1x16x16", "--rotate", "32"])
    assert "invalid choice: 32 (choose from 64, 0)" in capsys.readouterr().err
