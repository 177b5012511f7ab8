# SPDX-License-Identifier: Apache-2.0
"""How well a language model expects texts: e to the mean of minus the logarithm of each token's
probability.

In:   an artifact, its words, texts; the model's own GGUF file, for the float network.
Out:  Perplexity, beside float's, and how sure the difference is.
Next: `loadstone perplexity`.

A text is cut into windows; each begins with empty caches, and each of its tokens but the first is
predicted. The artifact runs as it is, on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError, ModelError, check_arguments
from loadstone.files import JsonObject, read_whole
from loadstone.frontend.gguf_file import GgufFile
from loadstone.language.decoder import TextSession, decoder_shape
from loadstone.language.real_decoder import RealDecoder
from loadstone.language.words import Vocabulary, words_for

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's own from Python 3.11 on

__all__ = ["Perplexity", "PerplexityOptions", "losses", "perplexity", "windows"]

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Perplexity:
    """tokens: that were predicted. perplexity_float, difference (of perplexity to it, as a share)
    and difference_error (what is left of a standard deviation by so many tokens): None where no
    float network was given."""

    tokens: int
    windows: int
    perplexity: float
    perplexity_float: float | None
    difference: float | None
    difference_error: float | None

    def to_json(self) -> JsonObject:
        """Every figure."""
        return asdict(self)


@dataclass(frozen=True)
class PerplexityOptions:
    """What perplexity() takes besides model and texts. against: the GGUF file, for the float
    network. tokens: so many of them or some more, in windows spread evenly over the texts; None:
    all. device: as in `loadstone run`. tokenizer: words_for's other file. progress: is called with
    the tokens that are done, and all."""

    against: str | Path | None = None
    tokens: int | None = None
    device: str = "sim"
    tokenizer: str | Path | None = None
    progress: Callable[[int, int], None] = lambda done, count: None

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 1:
            raise ConfigError(f"tokens={self.tokens} is not above 0: nothing would be measured")


class _Options(TypedDict, total=False):
    """Fields of PerplexityOptions, by name."""

    against: str | Path | None
    tokens: int | None
    device: str
    tokenizer: str | Path | None
    progress: Callable[[int, int], None]


def perplexity(
    model: str | Path, texts: Sequence[str | Path], **options: Unpack[_Options]
) -> Perplexity:
    """texts: files in UTF-8. options: fields of PerplexityOptions. Raises ModelError, one line;
    ConfigError."""
    check_arguments("perplexity", options, [entry.name for entry in fields(PerplexityOptions)])
    asked = PerplexityOptions(**options)
    artifact = Artifact.load(model)
    decoder_shape(artifact)
    words = words_for(model, asked.tokenizer)
    real = None
    if asked.against is not None:
        real = RealDecoder(GgufFile(_bytes(asked.against), Path(asked.against).name))
    with TextSession(artifact, asked.device, timing=False) as session:
        words.check_count(session.shape.words, artifact.name)
        contents = [_text(path) for path in texts]
        chosen = windows(contents, words, session.shape.places, asked.tokens)
        count = sum(len(window) - 1 for window in chosen)
        own: list[Losses] = []
        for window in chosen:
            session.reset()
            for token, target in pairwise(window):
                own.append(losses(session.next([token])[None], [target]))
                asked.progress(len(own), count)
    mine = np.concatenate(own)
    if real is None:
        return Perplexity(count, len(chosen), float(np.exp(mine.mean())), None, None, None)
    wanted = np.concatenate([losses(real.scores(window[:-1]), window[1:]) for window in chosen])
    apart = mine - wanted
    return Perplexity(
        count,
        len(chosen),
        float(np.exp(mine.mean())),
        float(np.exp(wanted.mean())),
        float(np.expm1(apart.mean())),
        float(apart.std() / np.sqrt(count)),
    )


def windows(
    texts: Sequence[str], words: Vocabulary, length: int, count: int | None = None
) -> list[list[int]]:
    """Pieces of `length` tokens of all texts, one after the other; the last is what is left, two at
    least. count: as for perplexity. Raises ModelError where there are none."""
    tokens = [token for text in texts for token in words.tokens(text)]
    pieces = [tokens[begin : begin + length] for begin in range(0, len(tokens), length)]
    found = [piece for piece in pieces if len(piece) > 1]
    if not found:
        raise ModelError("the texts have no two tokens: there is nothing to predict")
    if count is None:
        return found
    whole = [piece for piece in found if len(piece) == length] or found
    wanted = min(len(whole), -(-count // (length - 1)))
    return [whole[k] for k in np.linspace(0, len(whole) - 1, wanted).astype(int)]


def losses(scores: NDArray[np.float32], tokens: Sequence[int]) -> Losses:
    """Minus the logarithm of the probability of each token (n,), by scores (n, words)."""
    wide = scores.astype(np.float64)
    top = wide.max(-1)
    total = np.log(np.exp(wide - top[:, None]).sum(-1)) + top
    return np.asarray(total - wide[np.arange(len(wide)), list(tokens)])


def _bytes(path: str | Path) -> bytes:
    try:
        return read_whole(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None


def _text(path: str | Path) -> str:
    try:
        return _bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: no text in UTF-8: {error.reason}") from None
