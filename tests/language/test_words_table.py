# SPDX-License-Identifier: Apache-2.0
"""words_table.py and boards/decoder/words.c: the tokens and the bytes that the library tokenizers
gives, for every line of our pages and for random letters; hostile tables and texts; refusals."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from loadstone.errors import ModelError
from loadstone.frontend.gguf_words import BYTE_LETTERS, DIVISIONS
from loadstone.language.words import Vocabulary
from loadstone.language.words_table import table_beside, words_table
from tests.c.build import MODES, compile_c
from tests.conftest import ROOT

DECODER = ROOT / "python/loadstone/boards/decoder"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTROLS = ("<|end|>", "<|end|>s", "<a>")
#: What divides texts, and letters of several classes and widths.
LETTERS = (
    " \t\n\r'sStTreveEmlLdD123\u0663\xb2\xbd\u2167\U00011de1\xe9 n\u0303\u4e2d\u3042\u3000\u2028"
    "\xa0\x85\U0001f600\u200d\x00\x04?.,<|>end_-"
)
ARTIFACT = bytes(range(16))


@pytest.fixture(scope="module", name="trained")
def _trained() -> dict[str, Any]:
    """Byte-level pairs of our pages, without the words of two bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = [letter for byte, letter in enumerate(BYTE_LETTERS) if byte not in (4, 0xF1)]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=list(CONTROLS), initial_alphabet=alphabet
    )
    made.train_from_iterator((page.read_text(encoding="utf-8") for page in PAGES[:12]), trainer)
    return dict(json.loads(made.to_str()))


def said(trained: dict[str, Any], division: str = "smollm", **changes: object) -> dict[str, Any]:
    """As gguf_words.py says it. changes: of the tokenizer."""
    tokenizer = {
        **trained,
        "decoder": {**DIVISIONS["gpt-2"][0]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": DIVISIONS[division]},
        **changes,
    }
    return {"ends": [0], "tokenizer": tokenizer}


class InC:
    """words.c with a table."""

    def __init__(self, program: Path, table: bytes, folder: Path) -> None:
        self.program, self.path = program, folder / "words.bin"
        self.path.write_bytes(table)

    def lines(self, texts: Sequence[bytes]) -> list[str]:
        """Of each text."""
        given = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        command = [str(self.program), str(self.path)]
        done = subprocess.run(command, input=given, capture_output=True, check=True, timeout=300)
        return done.stdout.decode().splitlines()


@pytest.fixture(scope="module", name="program", params=MODES)
def _program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = [ROOT / "tests/language/words_in_c.c", DECODER / "words.c"]
    target = tmp_path_factory.mktemp("words") / "words"
    return compile_c(request.param, target, sources, [f"-I{DECODER}"])


def differences(vocabulary: Vocabulary, program: InC, texts: Sequence[str]) -> list[object]:
    """Where C says something else."""
    found: list[object] = []
    lines = program.lines([text.encode() for text in texts])
    for text, line in zip(texts, lines, strict=True):
        tokens, shown, is_end = line.split("|")
        mine = [int(token) for token in tokens.split()]
        wanted = vocabulary.tokens(text)
        same = bytes.fromhex(shown).decode("utf-8", "replace") == vocabulary.text(wanted)
        ended = bool(wanted) and wanted[-1] in vocabulary.ends
        if mine != wanted or not same or bool(int(is_end)) != ended:
            found.append((text, mine, wanted))
    return found


def random_texts(rng: random.Random, count: int) -> list[str]:
    """Letters of all planes, most of them those that divide."""

    def letter() -> str:
        code = rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x110000)])
        return rng.choice(LETTERS) if rng.random() < 0.7 or 0xD800 <= code < 0xE000 else chr(code)

    return ["".join(letter() for _ in range(rng.randrange(20))) for _ in range(count)]


@pytest.mark.parametrize("division", ["gpt-2", "smollm"])
def test_every_line_and_random_letters(
    division: str, trained: dict[str, Any], program: Path, tmp_path: Path
) -> None:
    own = said(trained, division)
    in_c = InC(program, words_table(own, "x", ARTIFACT), tmp_path)
    texts = [
        line
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines(keepends=True)
    ]
    texts += [PAGES[0].read_text(encoding="utf-8"), "", "a" * 2000, " " * 99, "<|end|>s<|end|>"]
    texts += random_texts(random.Random(1), 3000)
    assert len(texts) > 10_000
    assert differences(Vocabulary(own, "x"), in_c, texts) == []


def test_a_word_in_front(trained: dict[str, Any], program: Path, tmp_path: Path) -> None:
    begin = {"SpecialToken": {"id": "<a>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    after = {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<a>": {"id": "<a>", "ids": [2], "tokens": ["<a>"]}},
    }
    own = said(trained, post_processor=after)
    in_c = InC(program, words_table(own, "x", ARTIFACT), tmp_path)
    assert differences(Vocabulary(own, "x"), in_c, ["", "in the", "<a>"]) == []


def test_what_is_no_utf8(trained: dict[str, Any], program: Path, tmp_path: Path) -> None:
    rng, texts = random.Random(2), list[bytes]()
    heads = [0x7F, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xF8]
    for _ in range(3000):
        texts.append(bytes(rng.choice([*heads, 0x8F, 0x90, 0x9F, 0xA0, 0x41]) for _ in range(4)))
    in_c = InC(program, words_table(said(trained), "x", ARTIFACT), tmp_path)
    for text, line in zip(texts, in_c.lines(texts), strict=True):
        try:
            text.decode()
        except UnicodeDecodeError:
            assert line == "bad", text
        else:
            assert line != "bad", text


def test_hostile_tables(trained: dict[str, Any], program: Path, tmp_path: Path) -> None:
    """Under the sanitizers: cut, or with one word changed; what is accepted does no harm."""
    table, rng = words_table(said(trained), "x", ARTIFACT), random.Random(3)
    taken = 0
    for number in range(150):
        changed = np.frombuffer(table, np.uint8).copy()
        if number % 3 == 0:
            changed = changed[: rng.randrange(len(table))]
        else:
            at = rng.randrange(8) if number % 3 == 1 else rng.randrange(len(table) // 4)
            value = rng.choice([0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 1999, 2000, rng.randrange(1 << 32)])
            changed[4 * at : 4 * at + 4] = np.frombuffer(value.to_bytes(4, "little"), np.uint8)
        lines = InC(program, changed.tobytes(), tmp_path).lines([b"in the <|end|>s of it 1"])
        taken += lines != ["no table"]
        assert len(lines) == 1
    assert 0 < taken < 100


BPE = "C has no form of its tokenizer"


@pytest.mark.parametrize(
    ("changes", "model", "why"),
    [
        ({"normalizer": {"type": "NFC"}}, {}, f"{BPE}: a normalizer, not none"),
        ({"pre_tokenizer": None}, {}, "a division of its own, not gpt-2, smollm"),
        ({}, {"type": "Unigram"}, "a model of its own, not byte-level pairs"),
        ({}, {"unk_token": "<a>"}, "unk_token='<a>', not none"),
        ({}, {"ignore_merges": True}, "ignore_merges, not false"),
        ({}, {"byte_fallback": True}, "byte_fallback, not false"),
        ({}, {"merges": [["q", "zqz"]]}, "the merge .*, not words of the vocabulary"),
        ({}, {"vocab": {"a": 1}}, "words without numbers of their own"),
        ({"post_processor": {"type": "ByteLevel"}}, {}, "a post_processor of its own"),
        ({"added_tokens": [{"content": "\xe9", "id": 4}]}, {}, "the added word .*, not one of"),
    ],
)
def test_refusals(
    changes: dict[str, Any], model: dict[str, Any], why: str, trained: dict[str, Any]
) -> None:
    own = said(trained, **changes)
    own["tokenizer"]["model"] = {**own["tokenizer"]["model"], **model}
    with pytest.raises(ModelError, match=why):
        words_table(own, "x", ARTIFACT)


@pytest.mark.parametrize("division", sorted({*DIVISIONS} - {"gpt-2", "smollm"}))
def test_a_division_that_c_does_not_do(division: str, trained: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=f"divided as for {division}, not gpt-2, smollm"):
        words_table(said(trained, division), "x", ARTIFACT)


def test_beside_an_artifact(trained: dict[str, Any], tmp_path: Path) -> None:
    path, words = tmp_path / "m.lds", tmp_path / "m.words.json"
    path.write_bytes(ARTIFACT)
    with pytest.raises(ModelError, match=r"m\.words\.json is not beside m\.lds"):
        table_beside(path, ARTIFACT)
    for content, why in (
        ({"artifact": "00", **said(trained)}, "belongs to another artifact"),
        ({"refused": "a SentencePiece"}, "a SentencePiece"),
        ([], "says no tokenizer"),
    ):
        words.write_text(json.dumps(content))
        with pytest.raises(ModelError, match=why):
            table_beside(path, ARTIFACT)
    own = said(trained)
    words.write_text(json.dumps({"artifact": ARTIFACT[12:].hex(), **own}))
    table = table_beside(path, b"another one of 16 bytes"[:12] + b"\x01\x02\x03\x04")
    assert table[28:32] == b"\x01\x02\x03\x04"
    assert table[32:] == words_table(own, "x", ARTIFACT)[32:]
