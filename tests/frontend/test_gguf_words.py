# SPDX-License-Identifier: Apache-2.0
"""gguf_words.py: the tokenizer of a file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

from loadstone.errors import ModelError
from loadstone.frontend.gguf_file import GgufFile
from loadstone.frontend.gguf_words import words_beside, words_of
from tests.frontend.gguf_models import CONTROLS, LETTERS, MERGES, tiny


def said(folder: Path, **words: Any) -> Any:
    path = tiny(folder / "m.gguf", words=words)
    return words_of(GgufFile(path.read_bytes(), path.name))


def test_words_merges_and_ends_are_the_files(tmp_path: Path) -> None:
    found = said(tmp_path)
    model = found["tokenizer"]["model"]
    assert found["ends"] == [2]
    assert [*model["vocab"]][: 3 + len(LETTERS)] == [*CONTROLS, *LETTERS]
    assert [*model["vocab"].values()] == [*range(3 + 256 + len(MERGES))]
    assert [" ".join(merge) for merge in model["merges"]] == [*MERGES]
    assert [entry["content"] for entry in found["tokenizer"]["added_tokens"]] == [*CONTROLS]
    assert found["tokenizer"]["post_processor"] is None
    assert said(tmp_path, eot_token_id=0)["ends"] == [2, 0]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            {"model": "llama"},
            "its tokenizer is 'llama', divided by 'smollm'; known are 'gpt2' with",
        ),
        ({"pre": "mine"}, "divided by 'mine'"),
        ({"pre": None}, "divided by ''"),
        ({"tokens": ["a", "a"], "token_type": [1, 1]}, "tokens has a word twice"),
        ({"tokens": [1, 2]}, "tokens is no list of words"),
        ({"tokens": None}, "tokens is no list of words"),
        ({"merges": ["h q"]}, "merges joins 'hq', no word"),
        ({"merges": ["he"]}, "merges joins 'he', no word"),
        ({"token_type": [1]}, "token_type is not a number for each of the words"),
        ({"eos_token_id": 9999}, "eos_token_id is 9999, not one of 266 words"),
        ({"add_bos_token": True, "bos_token_id": None}, "bos_token_id is None"),
    ],
)
def test_what_is_not_understood_is_refused(words: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        said(tmp_path, **words)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    beside = words_beside(tmp_path / "m.gguf")
    assert beside == {"refused": str(caught.value)}


def test_files_without_words(tmp_path: Path) -> None:
    assert words_beside(tiny(tmp_path / "m.gguf")) is None
    assert words_beside(tmp_path / "m.onnx") is None
    assert words_beside(object()) is None
