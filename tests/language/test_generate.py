# SPDX-License-Identifier: Apache-2.0
"""generate.py: greedy tokens against the independent decoder; what ends a text; what is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

import loadstone
from loadstone.errors import ConfigError, ModelError
from loadstone.language.generate import chosen
from loadstone.language.words import Vocabulary, words_for, words_path
from tests.frontend.gguf_models import Reference
from tests.language.texts import PLACES, small


def greedy(text: str, count: int) -> list[int]:
    """By the decoder in NumPy."""
    path, artifact = small()
    reference, tokens = Reference(path), []
    for token in words_for(artifact).tokens(text):
        scores = reference.next(token)
    for _ in range(count):
        tokens.append(int(scores.argmax()))
        scores = reference.next(tokens[-1])
    return tokens


def test_tokens_are_those_of_an_independent_decoder() -> None:
    _, artifact = small()
    pieces: list[str] = []
    made = loadstone.generate(artifact, "in the", tokens=8, show=pieces.append)
    assert isinstance(made, loadstone.Generated)
    assert list(made.tokens) == greedy("in the", 8)
    assert made.text == "".join(pieces) == words_for(artifact).text(made.tokens)
    assert (made.prompt_tokens, made.ended_by) == (2, "tokens")
    assert made.cycles_per_token is not None
    seconds = made.cycles_per_token / made.clock_mhz / 1e6
    assert made.device_per_second == pytest.approx(1 / seconds)
    assert 1 / made.per_second == pytest.approx(seconds + 1 / made.host_per_second)
    assert json.loads(json.dumps(made.to_json()))["tokens"] == list(made.tokens)


def test_a_text_ends_where_the_window_does(tmp_path: Path) -> None:
    (plain := tmp_path / "tokenizer.json").write_text(
        json.dumps(json.loads(words_path(small()[1]).read_text())["tokenizer"])
    )
    made = loadstone.generate(small()[1], "in", tokens=100, tokenizer=plain)
    assert made.ended_by == "window"
    assert len(made.tokens) == PLACES  # the last one needs no place
    with pytest.raises(ModelError, match=f"more than the {PLACES} places"):
        loadstone.generate(small()[1], "x" * (PLACES + 1))


def test_a_text_ends_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third token ends it, and is none of the text."""
    tokens = greedy("a", 8)
    at = next(k for k, token in enumerate(tokens) if k > 1 and token not in tokens[:k])
    real = Vocabulary.__init__

    def ends(self: Vocabulary, said: object, source: str) -> None:
        real(self, {**said, "ends": [tokens[at]]}, source)  # type: ignore[dict-item]

    monkeypatch.setattr(Vocabulary, "__init__", ends)
    made = loadstone.generate(small()[1], "a", tokens=8)
    assert (made.ended_by, list(made.tokens)) == ("end", tokens[:at])


def test_what_is_drawn_has_its_share() -> None:
    scores = np.log(np.array([0.1, 0.6, 0.3], np.float32))
    rng = np.random.default_rng(1)
    for temperature, wanted in (
        (1.0, [0.1, 0.6, 0.3]),
        (0.5, [0.01 / 0.46, 0.36 / 0.46, 0.09 / 0.46]),
    ):
        drawn = [chosen(scores, temperature, rng) for _ in range(4000)]
        assert np.bincount(drawn, minlength=3) / 4000 == pytest.approx(wanted, abs=0.03)
    assert chosen(np.array([1, 3, 3], np.float32), 0.0, rng) == 1
    with pytest.raises(ConfigError, match="no token can be chosen"):
        chosen(np.array([1, np.nan], np.float32), 1.0, rng)


def test_a_seed_decides() -> None:
    texts = [
        loadstone.generate(small()[1], "the", tokens=6, temperature=2.0, seed=seed).tokens
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tokens": 0}, "tokens=0 is not above 0"),
        ({"temperature": -1.0}, "temperature=-1 is no number from 0 on"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"seed": -1}, "seed=-1 is below 0"),
        ({"token": 3}, "did you mean tokens?"),
    ],
)
def test_numbers_that_mean_nothing(options: dict[str, float], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loadstone.generate(small()[1], "a", **options)
    assert why in str(caught.value)
