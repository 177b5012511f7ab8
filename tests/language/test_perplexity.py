# SPDX-License-Identifier: Apache-2.0
"""perplexity.py: by hand, and on a device beside float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from loadstone.errors import ConfigError, ModelError
from loadstone.language.perplexity import losses, perplexity, windows
from loadstone.language.words import words_for
from tests.frontend.gguf_models import Reference
from tests.language.texts import PLACES, small

TEXT = "the thing in the king, and the ring in the wing; nothing ends " * 2


def test_losses_by_hand() -> None:
    scores = np.log(np.array([[1, 1, 2], [8, 1, 1]], np.float32))
    assert losses(scores, [2, 1]) == pytest.approx([np.log(2), np.log(10)])
    assert losses(scores + 300, [2, 1]) == pytest.approx([np.log(2), np.log(10)], rel=1e-4)


def test_windows_are_spread() -> None:
    words = words_for(small()[1])
    tokens = words.tokens(TEXT)
    every = windows([TEXT], words, 10)
    assert [token for window in every for token in window] == tokens[: sum(map(len, every))]
    assert {len(window) for window in every[:-1]} == {10}
    assert windows([TEXT], words, 10, 18) == [every[0], every[len(tokens) // 10 - 1]]
    assert windows([TEXT], words, 10, 1) == [every[0]]
    assert windows(["a", "in the"], words, 10) == [words.tokens("a") + words.tokens("in the")]
    assert windows(["in the"], words, 10, 18) == [words.tokens("in the")]
    with pytest.raises(ModelError, match="nothing to predict"):
        windows(["a"], words, 10)


def test_on_a_device_beside_float(tmp_path: Path) -> None:
    path, artifact = small()
    (file := tmp_path / "text.txt").write_text(TEXT)
    seen: list[tuple[int, int]] = []
    made = perplexity(artifact, [file], against=path, progress=lambda *k: seen.append(k))
    words = words_for(artifact)
    mine, real = [], []
    for window in windows([TEXT], words, PLACES):
        for kept, decoder in ((mine, Reference(path)), (real, Reference(path, real=True))):
            scores = np.stack([decoder.next(token) for token in window[:-1]])
            kept.append(losses(scores, window[1:]))
    a, b = np.concatenate(mine), np.concatenate(real)
    assert made.tokens == len(a) == len(seen)
    assert seen[-1] == (len(a), len(a))
    assert made.perplexity == pytest.approx(float(np.exp(a.mean())), rel=1e-12)
    assert made.perplexity_float == pytest.approx(float(np.exp(b.mean())), rel=1e-5)
    assert made.difference == pytest.approx(made.perplexity / made.perplexity_float - 1)
    assert made.difference_error == pytest.approx(float((a - b).std() / np.sqrt(len(a))), rel=1e-3)
    alone = perplexity(artifact, [file], tokens=20)
    assert (alone.tokens, alone.windows, alone.perplexity_float) == (PLACES - 1, 1, None)


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    _, artifact = small()
    (file := tmp_path / "x.txt").write_bytes(b"\xff")
    with pytest.raises(ModelError, match="no text in UTF-8"):
        perplexity(artifact, [file])
    with pytest.raises(ModelError, match="cannot be read"):
        perplexity(artifact, [tmp_path / "nothing"])
    with pytest.raises(ConfigError, match="tokens=0 is not above 0"):
        perplexity(artifact, [file], tokens=0)
