# SPDX-License-Identifier: Apache-2.0
"""A tokenizer as a table for C: words.bin.

In:   `tokenizer` and `ends`, as frontend/gguf_words.py makes them.
Out:  bytes, little-endian; what the table does not hold is refused by name.
Next: boards/decoder/words.c reads it.

    u32[8]      "LDSW", words, ends, whole words, merges, the word of a text's beginning or all
                ones, whether digits are divided from all else, the checksum of their artifact
    u32[256]    the word of each byte, all ones where there is none
    u32[ends]
    u32[whole]  words that are looked for before a text is divided, the longest first
    u32[merges][4]   left, right, rank, the word that they become; in the order of left, then right
    u32[words + 1]   where each word's bytes begin
    u8[words]   1 for a word that is no text
    u8[]        the bytes of all words
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from loadstone.errors import ModelError
from loadstone.files import JsonObject, JsonValue, parsed_json, read_whole
from loadstone.frontend.gguf_words import BYTE_LETTERS, DIVISIONS

__all__ = ["table_beside", "words_table"]

_CHECKSUM = slice(12, 16)  # of an artifact's header
_NONE = 0xFFFFFFFF
#: Divisions that words.c does, and whether digits are divided from all else.
_DIGITS = {"gpt-2": 0, "smollm": 1}
_LETTERS = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}


def words_table(said: Mapping[str, JsonValue], source: str, artifact: bytes) -> bytes:
    """artifact: the bytes that these words belong to. Raises ModelError for a tokenizer that is
    none of byte-level pairs, divided as for GPT-2 or SmolLM."""
    tokenizer, ends = said.get("tokenizer"), said.get("ends")
    if not isinstance(tokenizer, dict) or not isinstance(ends, list):
        raise ModelError(f"{source}: it says no tokenizer")
    division = _division(tokenizer, source)
    numbers, merges = _model(tokenizer, source)
    whole, hidden = _whole(tokenizer, numbers, source)
    texts = [_bytes(word) for word, _ in sorted(numbers.items(), key=lambda pair: pair[1])]
    begin = _begin(tokenizer, numbers, source)
    pairs = _pairs(merges, numbers, source)
    whole.sort(key=lambda number: -len(texts[number]))
    head = [len(texts), len(ends), len(whole), len(pairs), begin, _DIGITS[division]]
    of_byte = [numbers.get(letter, _NONE) for letter in BYTE_LETTERS]
    first = np.cumsum([0, *map(len, texts)])
    parts = [
        b"LDSW" + _u32(head) + artifact[_CHECKSUM],
        *(_u32(part) for part in (of_byte, ends, whole, np.array(pairs), first)),
        bytes(number in hidden for number in range(len(texts))),
        *texts,
    ]
    return b"".join(parts)


def table_beside(path: Path, artifact: bytes) -> bytes:
    """The table of the words beside an artifact's file. artifact: the same model, as it goes to a
    board. Raises ModelError where there are none, or C has no form of them."""
    words = path.with_suffix(".words.json")
    if not words.is_file():
        raise ModelError(f"{words.name} is not beside {path.name}")
    said = parsed_json(read_whole(words), words.name, ModelError)
    if not isinstance(said, dict):
        raise ModelError(f"{words.name} says no tokenizer")
    if "refused" in said:
        raise ModelError(str(said["refused"])[:400])
    with path.open("rb") as file:
        own = file.read(_CHECKSUM.stop)[_CHECKSUM].hex()
    if said.get("artifact") != own:
        raise ModelError(f"{words.name} belongs to another artifact than {path.name}")
    return words_table(said, words.name, artifact)


def _u32(values: object) -> bytes:
    return np.asarray(values, np.uint32).astype("<u4").tobytes()


def _refusal(source: str, what: str, known: str) -> ModelError:
    return ModelError(f"{source}: C has no form of its tokenizer: {what}, not {known}")


def _model(tokenizer: JsonObject, source: str) -> tuple[dict[str, int], list[JsonValue]]:
    """The number of each word; the merges."""
    model = tokenizer.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise _refusal(source, "a model of its own", "byte-level pairs (BPE)")
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(name) is not None:
            raise _refusal(source, f"{name}={model[name]!r:.40}", "none")
    for name in ("byte_fallback", "ignore_merges", "fuse_unk"):
        if model.get(name):
            raise _refusal(source, name, "false")
    vocabulary, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise _refusal(source, "no words", "a vocabulary and merges")
    numbers = {word: number for word, number in vocabulary.items() if isinstance(number, int)}
    if sorted(numbers.values()) != list(range(len(vocabulary))):
        raise _refusal(source, "words without numbers of their own", "0, 1, 2 ...")
    return numbers, merges


def _division(tokenizer: JsonObject, source: str) -> str:
    """The name of what divides a text."""
    if tokenizer.get("normalizer") is not None:
        raise _refusal(source, "a normalizer", "none")
    own = tokenizer.get("pre_tokenizer")
    for name in DIVISIONS:
        if own == {"type": "Sequence", "pretokenizers": DIVISIONS[name]}:
            if name not in _DIGITS:
                raise _refusal(source, f"a text divided as for {name}", ", ".join(_DIGITS))
            return name
    raise _refusal(source, "a division of its own", ", ".join(_DIGITS))


def _whole(
    tokenizer: JsonObject, numbers: Mapping[str, int], source: str
) -> tuple[list[int], set[int]]:
    """(words that are found before a text is divided, those of them that are no text)."""
    added = tokenizer.get("added_tokens")
    whole, hidden = list[int](), set[int]()
    for entry in added if isinstance(added, list) else ():
        if not isinstance(entry, dict) or not isinstance(word := entry.get("content"), str):
            raise _refusal(source, "added_tokens without content", "words")
        if numbers.get(word) != entry.get("id") or _bytes(word) != word.encode() or not word:
            raise _refusal(
                source, f"the added word {word!r:.40}", "one of the vocabulary, in ASCII"
            )
        for name in ("single_word", "lstrip", "rstrip", "normalized"):
            if entry.get(name):
                raise _refusal(source, f"{name} of the added word {word!r:.40}", "false")
        whole.append(numbers[word])
        if entry.get("special"):
            hidden.add(numbers[word])
    return whole, hidden


def _begin(tokenizer: JsonObject, numbers: Mapping[str, int], source: str) -> int:
    """The word in front of every text."""
    made = tokenizer.get("post_processor")
    if made is None:
        return _NONE
    single = made.get("single") if isinstance(made, dict) else None
    if not isinstance(single, list) or len(single) != 2 or not isinstance(single[0], dict):
        raise _refusal(source, "a post_processor of its own", "one word in front of a text")
    special = single[0].get("SpecialToken")
    word = special.get("id") if isinstance(special, dict) else None
    if not isinstance(word, str) or word not in numbers:
        raise _refusal(source, f"{word!r:.40} in front of a text", "a word")
    return numbers[word]


def _pairs(
    merges: Sequence[JsonValue], numbers: Mapping[str, int], source: str
) -> list[tuple[int, int, int, int]]:
    """left, right, rank, result. Of a pair that stands twice the last counts, as in the library."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, pair in enumerate(merges):
        parts = pair if isinstance(pair, list) else []
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise _refusal(source, f"the merge {pair!r:.40}", "two words")
        left, right = (str(part) for part in parts)
        if not {left, right, left + right} <= numbers.keys():
            raise _refusal(source, f"the merge {pair!r:.40}", "words of the vocabulary")
        found[numbers[left], numbers[right]] = rank, numbers[left + right]
    return sorted((*key, *value) for key, value in found.items())


def _bytes(word: str) -> bytes:
    """What a word is in a text: its letters stand for bytes, or it is itself."""
    if all(letter in _LETTERS for letter in word):
        return bytes(_LETTERS[letter] for letter in word)
    return word.encode()
