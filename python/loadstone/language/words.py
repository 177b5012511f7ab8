# SPDX-License-Identifier: Apache-2.0
"""Tokens of a text, and the text of tokens, as the model's own file says.

In:   the file of words that `loadstone compile` writes beside an artifact, or a GGUF file, or the
      JSON of the library tokenizers.
Out:  Vocabulary: numbers of the vocabulary; a text as it grows.
Next: generate.py, perplexity.py.

The library tokenizers does it. The file beside an artifact says whose it is: by the CRC of its
header, so that words of another model are never taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from loadstone.errors import ModelError, not_installed
from loadstone.files import JsonObject, parsed_json, read_whole, write_whole
from loadstone.frontend.gguf_file import GgufFile
from loadstone.frontend.gguf_words import words_of

__all__ = ["Vocabulary", "save_words", "words_for", "words_path"]

_CRC = slice(12, 16)  # of an artifact's header


class Vocabulary:
    """ends: the tokens behind which a text ends. count: of the vocabulary."""

    def __init__(self, said: JsonObject, source: str) -> None:
        """said: `tokenizer` and `ends`, as words_of makes them. Raises ModelError."""
        try:
            from tokenizers import Tokenizer
        except ModuleNotFoundError as error:
            raise ModelError(not_installed(str(error.name), "language")) from None
        ends = said.get("ends")
        if not isinstance(ends, list) or not all(type(end) is int for end in ends):
            raise ModelError(f"{source}: `ends` is no list of tokens")
        try:
            self._tokenizer = Tokenizer.from_str(json.dumps(said.get("tokenizer")))
        except Exception as error:  # the library raises no other
            why = str(error).splitlines()[0][:200]
            raise ModelError(f"{source}: no tokenizer that can be read: {why}") from None
        self.ends = tuple(ends)
        self.count = int(self._tokenizer.get_vocab_size())

    def check_count(self, count: int, model: str) -> None:
        """Raises ModelError where a model scores fewer words than these."""
        if self.count > count:
            raise ModelError(
                f"model {model!r} scores {count} words, and its tokenizer has {self.count}: it is "
                "another model's"
            )

    def tokens(self, text: str) -> list[int]:
        """Of a text, with the token of its beginning where the model has one."""
        return list(self._tokenizer.encode(text).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """Of tokens, without those that are no text."""
        return str(self._tokenizer.decode(list(tokens)))

    def growing(self) -> Callable[[int | None], str]:
        """A function that is given one token after the other, and None at the end: what each adds
        to the text. Bytes of a letter that is not whole wait for the rest."""
        tokens: list[int] = []
        shown = 0

        def grown(token: int | None) -> str:
            nonlocal shown
            if token is not None:
                tokens.append(token)
            text = self.text(tokens)
            if token is not None and text.endswith("\ufffd"):
                return ""
            shown, added = len(text), text[shown:]
            return added

        return grown


def words_path(artifact: str | Path) -> Path:
    """The file beside an artifact."""
    return Path(artifact).with_suffix(".words.json")


def save_words(said: JsonObject, artifact: str | Path) -> None:
    """Beside an artifact that has been written."""
    text = json.dumps({"artifact": _crc(artifact), **said}, ensure_ascii=False)
    write_whole(words_path(artifact), text + "\n")


def words_for(artifact: str | Path, other: str | Path | None = None) -> Vocabulary:
    """Those of an artifact: the file beside it, or another: a GGUF file, the JSON of the
    library tokenizers (whose texts end nowhere), the words of another artifact. Raises
    ModelError, one line."""
    path = words_path(artifact) if other is None else Path(other)
    try:
        data = read_whole(path)
    except OSError as error:
        if other is not None:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
        raise ModelError(
            f"{path} is missing: `loadstone compile model.gguf` writes it beside the artifact; or "
            "name the model's own file: --tokenizer model.gguf, --tokenizer tokenizer.json"
        ) from None
    if path.suffix.lower() == ".gguf":
        return Vocabulary(words_of(GgufFile(data, path.name)), path.name)
    said = parsed_json(data, path.name, ModelError)
    if not isinstance(said, dict):
        raise ModelError(f"{path}: no tokenizer")
    if "tokenizer" not in said and "model" in said:
        said = {"ends": [], "tokenizer": said}
    if "refused" in said:
        raise ModelError(str(said["refused"])[:400])
    if other is None and said.get("artifact") != _crc(artifact):
        raise ModelError(
            f"{path} belongs to another artifact than {artifact}: compile the model again, or say "
            f"--tokenizer {path}"
        )
    return Vocabulary(said, path.name)


def _crc(artifact: str | Path) -> str:
    with open(artifact, "rb") as file:
        return file.read(_CRC.stop)[_CRC].hex()
