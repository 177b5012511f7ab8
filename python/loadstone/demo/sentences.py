# SPDX-License-Identifier: Apache-2.0
"""The text that the second demo's network learns: sentences of a small grammar of our own.

In:   a seed.
Out:  `text`: so many characters of it; `SYMBOLS`: the alphabet; `is_sentence`: whether a sentence
      is one of the grammar.
Next: tools/train_text.py trains a network on it; `loadstone demo text` counts how many of the
      network's sentences are right.

A grammar has no owner, and says of every word whether it is right: a network that was quantized
badly misspells, or breaks off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

__all__ = ["SYMBOLS", "decode", "encode", "is_sentence", "text"]

#: The alphabet; a symbol's place in it is its token.
SYMBOLS = " .,abcdefghijklmnopqrstuvwxyz"

_WHO = ("robot", "gardener", "sailor", "painter", "baker", "child", "captain", "farmer")
_KIND = ("small", "old", "quiet", "clever", "tired", "happy")
_DOES = ("carries", "finds", "paints", "brings", "repairs", "hides", "opens", "sells")
_COLOR = ("red", "green", "blue", "yellow", "white", "black")
_WHAT = ("box", "boat", "lamp", "basket", "clock", "kite", "wheel", "drum")
_PLACE = (
    *("in the garden", "near the river", "behind the house", "at the harbour"),
    *("under the bridge", "beside the mill"),
)
_WHEN = ("in the morning", "at noon", "every evening", "before the rain", "after lunch")
_SENTENCE = re.compile(
    rf"(({'|'.join(_WHEN)}), )?"
    rf"the (({'|'.join(_KIND)}) )?({'|'.join(_WHO)}) ({'|'.join(_DOES)}) "
    rf"a (({'|'.join(_COLOR)}) )?({'|'.join(_WHAT)})( ({'|'.join(_PLACE)}))?"
)


def text(characters: int, seed: int) -> str:
    """Sentences, each with a full stop and a space behind it, cut after so many characters."""
    parts: list[str] = []
    length = 0
    for sentence in _sentences(np.random.default_rng(seed)):
        parts.append(sentence + ". ")
        length += len(parts[-1])
        if length >= characters:
            break
    return "".join(parts)[:characters]


def is_sentence(sentence: str) -> bool:
    """Whether the grammar has it; without its full stop."""
    return _SENTENCE.fullmatch(sentence) is not None


def encode(characters: str) -> list[int]:
    """The tokens of a text. Raises ValueError for a symbol that is not in the alphabet."""
    return [SYMBOLS.index(symbol) for symbol in characters]


def decode(tokens: list[int]) -> str:
    """The text of some tokens."""
    return "".join(SYMBOLS[token] for token in tokens)


def _sentences(rng: np.random.Generator) -> Iterator[str]:
    def one(words: tuple[str, ...]) -> str:
        return words[int(rng.integers(len(words)))]

    def perhaps(words: tuple[str, ...], form: str) -> str:
        return form.format(one(words)) if rng.random() < 0.5 else ""

    while True:
        yield (
            perhaps(_WHEN, "{}, ")
            + f"the {perhaps(_KIND, '{} ')}{one(_WHO)} {one(_DOES)} "
            + f"a {perhaps(_COLOR, '{} ')}{one(_WHAT)}{perhaps(_PLACE, ' {}')}"
        )
