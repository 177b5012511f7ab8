# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of a GGUF file, as the JSON that the library tokenizers reads.

In:   a GgufFile.
Out:  JSON: the tokenizer, and the numbers of the tokens that end a text.
Next: Compiled.save writes it beside the artifact; language/words.py makes tokens of text by it.

Byte-level pairs are read (`gpt2`): words and merges stand in the file, and what divides a text
before pairs are joined is named there only. A name that is not known is refused: another division
would give other tokens, and nobody would see it.
"""

from __future__ import annotations

from pathlib import Path

from loadstone.errors import ModelError
from loadstone.files import JsonObject, read_whole
from loadstone.frontend.gguf_file import GgufFile, Value

__all__ = ["BYTE_LETTERS", "DIVISIONS", "words_beside", "words_of"]

_KEY = "tokenizer.ggml."
#: Kinds of words in the file: not text, and never divided.
_CONTROL, _WHOLE = 3, 4
#: Bytes that are printed as they are; the others are letters from 256 on.
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN = [byte for byte in range(256) if byte not in _PRINTED]
#: The letter of each byte in the words of byte-level pairs.
BYTE_LETTERS = [chr(b) if b in _PRINTED else chr(256 + _HIDDEN.index(b)) for b in range(256)]
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _bytes(*, words: bool) -> JsonObject:
    """Bytes as letters; words: text is divided as for GPT-2 first."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": words,
    }


def _split(pattern: str) -> list[JsonObject]:
    """A division of its own."""
    one = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return [one, _bytes(words=False)]


_DIGITS: JsonObject = {"type": "Digits", "individual_digits": True}
#: What divides a text, by its name in the file.
DIVISIONS: dict[str, list[JsonObject]] = {
    "gpt-2": [_bytes(words=True)],
    "smollm": [_DIGITS, _bytes(words=True)],
    "llama-bpe": _split(_LETTERS + r"\p{N}{1,3}" + _OTHERS),
    "qwen2": _split(_LETTERS + r"\p{N}" + _OTHERS),
}
#: A word of the vocabulary stays whole, whatever the merges say.
_IGNORES_MERGES = {"llama-bpe"}
_BEGINS_WITH_BOS = {"llama-bpe"}
_COMPOSED = {"qwen2"}  # Unicode's form NFC


def words_beside(model: object) -> JsonObject | None:
    """Of a model's file what stands beside its artifact: words_of, or `refused`, the reason why
    there are none. None for what is no GGUF file, or has no tokenizer."""
    if not isinstance(model, str | Path) or Path(model).suffix.lower() != ".gguf":
        return None
    file = GgufFile(read_whole(model), Path(model).name)
    if f"{_KEY}model" not in file.keys:
        return None
    try:
        return words_of(file)
    except ModelError as error:
        return {"refused": str(error)}


def words_of(file: GgufFile) -> JsonObject:
    """`tokenizer` and `ends`. Raises ModelError for a tokenizer that is not understood."""
    kind, name = file.keys.get(f"{_KEY}model"), str(file.keys.get(f"{_KEY}pre", ""))
    if kind != "gpt2" or name not in DIVISIONS:
        raise ModelError(
            f"{file.name}: its tokenizer is {_said(kind)}, divided by {_said(name)}; known are "
            f"'gpt2' with {', '.join(DIVISIONS)}: give the model's tokenizer.json (--tokenizer)"
        )
    words, merges = _texts(file, "tokens"), _texts(file, "merges")
    numbers = {word: number for number, word in enumerate(words)}
    if len(numbers) != len(words):
        raise ModelError(f"{file.name}: {_KEY}tokens has a word twice")
    joined = [merge.partition(" ")[::2] for merge in merges]
    for left, right in joined:
        if not {left, right, left + right} <= numbers.keys():
            raise ModelError(f"{file.name}: {_KEY}merges joins {_said(left + right)}, no word")
    division = DIVISIONS[name]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _whole(file, words),
        "normalizer": {"type": "NFC"} if name in _COMPOSED else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": division},
        "post_processor": _begin(file, words, name),
        "decoder": _bytes(words=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": name in _IGNORES_MERGES,
            "vocab": numbers,
            "merges": joined,
        },
    }
    ends = [_number(file, key, words) for key in _ENDS if f"{_KEY}{key}" in file.keys]
    return {"ends": ends, "tokenizer": tokenizer}


def _whole(file: GgufFile, words: list[str]) -> list[JsonObject]:
    """Words that are found in a text before it is divided."""
    kinds = file.keys.get(f"{_KEY}token_type", [1] * len(words))
    if not isinstance(kinds, list) or len(kinds) != len(words):
        raise ModelError(f"{file.name}: {_KEY}token_type is not a number for each of the words")
    same = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": number, "content": word, **same, "special": kind == _CONTROL}
        for number, (word, kind) in enumerate(zip(words, kinds, strict=True))
        if kind in (_CONTROL, _WHOLE)
    ]


def _begin(file: GgufFile, words: list[str], name: str) -> JsonObject | None:
    """What puts the token of a text's beginning in front of it."""
    if not file.keys.get(f"{_KEY}add_bos_token", name in _BEGINS_WITH_BOS):
        return None
    number = _number(file, "bos_token_id", words)
    text: JsonObject = {"Sequence": {"id": "A", "type_id": 0}}
    begin: JsonObject = {"SpecialToken": {"id": words[number], "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            words[number]: {"id": words[number], "ids": [number], "tokens": [words[number]]}
        },
    }


def _texts(file: GgufFile, name: str) -> list[str]:
    found = file.keys.get(f"{_KEY}{name}")
    if not isinstance(found, list) or not found or not all(isinstance(x, str) for x in found):
        raise ModelError(f"{file.name}: {_KEY}{name} is no list of words")
    return [str(word) for word in found]


def _number(file: GgufFile, name: str, words: list[str]) -> int:
    found = file.keys.get(f"{_KEY}{name}")
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < len(words):
        raise ModelError(
            f"{file.name}: {_KEY}{name} is {_said(found)}, not one of {len(words)} words"
        )
    return found


def _said(found: Value | None) -> str:
    return repr(found)[:40]
