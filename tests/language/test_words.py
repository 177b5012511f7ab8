# SPDX-License-Identifier: Apache-2.0
"""words.py: tokens of texts, by hand; texts of tokens as they come; words of another model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from loadstone.errors import ModelError
from loadstone.frontend.gguf_file import GgufFile
from loadstone.frontend.gguf_words import words_of
from loadstone.language.words import Vocabulary, save_words, words_for
from tests.frontend.gguf_models import CONTROLS, LETTERS, MERGES, tiny

NAMES = [*CONTROLS, *LETTERS, *("".join(merge.split()) for merge in MERGES)]


def said(folder: Path, **words: Any) -> Any:
    path = tiny(folder / "m.gguf", words=words)
    return words_of(GgufFile(path.read_bytes(), path.name))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return Vocabulary(said(tmp_path_factory.mktemp("words")), "m.gguf")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" the thing", ["Ġthe", "Ġt", "h", "ing"]),
        ("thing", ["t", "h", "ing"]),  # no `Ġ t` in it
        ("a12", ["a", "1", "2"]),
        ("\n\n1", ["ĊĊ", "1"]),  # digits are parted first: then both line ends are one word
        ("\n\nin", ["Ċ", "Ċ", "in"]),  # the last white space belongs to what follows
        ("<|im_end|>he", ["<|im_end|>", "he"]),
        ("é", ["Ã", "©"]),
    ],
)
def test_tokens_by_hand(text: str, wanted: list[str], words: Vocabulary) -> None:
    assert [NAMES[token] for token in words.tokens(text)] == wanted


def test_divisions_differ(tmp_path: Path) -> None:
    """Digits in one, three or any number; what the names in a file decide."""
    text, found = "1234\n\n5", {}
    for name in ("smollm", "gpt-2", "llama-bpe", "qwen2"):
        found[name] = Vocabulary(said(tmp_path, pre=name, bos_token_id=0), "m").tokens(text)
    spelled = {name: [NAMES[t] for t in tokens] for name, tokens in found.items()}
    assert spelled["smollm"] == ["1", "2", "3", "4", "ĊĊ", "5"]
    assert spelled["gpt-2"] == ["1", "2", "3", "4", "Ċ", "Ċ", "5"]
    assert spelled["llama-bpe"] == [CONTROLS[0], "1", "2", "3", "4", "ĊĊ", "5"]
    assert spelled["qwen2"] == ["1", "2", "3", "4", "ĊĊ", "5"]
    off = Vocabulary(said(tmp_path, pre="llama-bpe", add_bos_token=False), "m")
    assert NAMES[off.tokens("1")[0]] == "1"


@given(st.text(max_size=40))
def test_a_text_comes_back(text: str) -> None:
    model = _kept()
    tokens = model.tokens(text)
    assert model.text(tokens) == text or any(name in text for name in CONTROLS)
    grown = model.growing()
    pieces = [grown(token) for token in tokens]
    assert "".join([*pieces, grown(None)]) == model.text(tokens)


def _kept() -> Vocabulary:
    if not _KEPT:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            _KEPT.append(Vocabulary(said(Path(folder)), "m"))
    return _KEPT[0]


_KEPT: list[Vocabulary] = []


def test_half_a_letter_waits(words: Vocabulary) -> None:
    grown, tokens = words.growing(), words.tokens("é")
    assert [grown(token) for token in (*tokens, tokens[0], None)] == ["", "é", "", "\ufffd"]


def test_a_file_beside_an_artifact_belongs_to_it(tmp_path: Path) -> None:
    one, other = tmp_path / "a.lds", tmp_path / "b.lds"
    one.write_bytes(bytes(12) + b"1234" + bytes(9))
    other.write_bytes(bytes(12) + b"4321" + bytes(9))
    with pytest.raises(ModelError, match=r"a\.words\.json is missing: `loadstone compile"):
        words_for(one)
    save_words(said(tmp_path), one)
    assert words_for(one).ends == (2,)
    beside = tmp_path / "a.words.json"
    (tmp_path / "b.words.json").write_bytes(beside.read_bytes())
    with pytest.raises(ModelError, match="belongs to another artifact"):
        words_for(other)
    for source in (beside, tmp_path / "m.gguf"):
        assert words_for(other, source).tokens("in") == words_for(one).tokens("in")
    plain = tmp_path / "tokenizer.json"
    plain.write_text(json.dumps(said(tmp_path)["tokenizer"]))
    assert words_for(other, plain).ends == ()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "no JSON that can be read"),
        ("[]", "no tokenizer"),
        ('{"refused": "its tokenizer is strange"}', "its tokenizer is strange"),
        ('{"ends": [1], "tokenizer": {"model": 3}}', "no tokenizer that can be read"),
        ('{"ends": "x", "tokenizer": {}}', "`ends` is no list of tokens"),
    ],
)
def test_what_is_no_tokenizer(content: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ModelError) as caught:
        words_for(tmp_path / "a.lds", path)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="cannot be read"):
        words_for(tmp_path / "a.lds", tmp_path / "nothing.json")


def test_more_words_than_a_model_scores(words: Vocabulary) -> None:
    words.check_count(266, "m")
    with pytest.raises(ModelError, match="scores 265 words, and its tokenizer has 266"):
        words.check_count(265, "m")
