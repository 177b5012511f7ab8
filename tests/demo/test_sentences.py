# SPDX-License-Identifier: Apache-2.0
"""demo/sentences.py: the grammar makes its own sentences, and knows them from others."""

from __future__ import annotations

import pytest

from loadstone.demo.sentences import SYMBOLS, decode, encode, is_sentence, text


def test_a_text_is_sentences_of_the_grammar_and_the_same_every_time() -> None:
    written = text(5000, 3)
    assert len(written) == 5000
    assert written == text(5000, 3) != text(5000, 4)
    sentences = written.split(". ")[:-1]
    assert len(sentences) > 80
    assert all(map(is_sentence, sentences))


@pytest.mark.parametrize(
    "other",
    [
        "the robot carries a bax",
        "the robot carries a red red box",
        "robot carries a box",
        "the robot carries a box at noon",
        "",
    ],
)
def test_what_the_grammar_does_not_have_is_no_sentence(other: str) -> None:
    assert not is_sentence(other)


def test_tokens_are_places_in_the_alphabet() -> None:
    assert encode(SYMBOLS) == list(range(len(SYMBOLS)))
    assert decode(encode("at noon, the sailor.")) == "at noon, the sailor."
    with pytest.raises(ValueError, match="not found"):
        encode("Q")
