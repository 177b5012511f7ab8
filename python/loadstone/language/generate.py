# SPDX-License-Identifier: Apache-2.0
"""A text goes on: the next token, again and again.

In:   an artifact of a language model, its words, a text.
Out:  Generated: the text behind it, its tokens, and their speed.
Next: `loadstone generate`; loadstone.generate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError, check_arguments
from loadstone.files import JsonObject
from loadstone.language.decoder import TextSession, decoder_shape, host_seconds
from loadstone.language.words import Vocabulary, words_for

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's own from Python 3.11 on

__all__ = ["GenerateOptions", "Generated", "chosen", "generate"]


@dataclass(frozen=True)
class Generated:
    """text: without the one that it was given. tokens: those of the text, and what ended it.
    ended_by: "end" (a token that ends texts), "tokens" (as many as were asked for), "window" (no
    place is left). prompt_tokens: of the text that it was given.

    prompt_cycles: until the first token can be chosen. cycles_per_token: of a run with one token;
    both None where the device counts none. device_per_second:
    tokens, at the device's clock, or measured where it counts no cycles. host_per_second: by the
    processor time of the host's steps on this machine, one thread, at the middle of the text.
    per_second: both together, one after the other, as they work.
    """

    text: str
    tokens: tuple[int, ...]
    ended_by: str
    prompt_tokens: int
    prompt_cycles: int | None
    cycles_per_token: int | None
    device: str
    clock_mhz: int
    device_per_second: float
    host_per_second: float
    per_second: float

    def to_json(self) -> JsonObject:
        """Every figure."""
        return {**asdict(self), "tokens": list(self.tokens)}


@dataclass(frozen=True)
class GenerateOptions:
    """What generate() takes besides model and text. tokens: as many at most. temperature: 0 takes
    the token with the highest score, the first of equals; above it tokens are drawn, by the softmax
    of the scores over it, with `seed`. device: as in `loadstone run`. tokenizer: words_for's other
    file. show: is called with each piece of the text when it is there."""

    tokens: int = 64
    temperature: float = 0.0
    seed: int = 0
    device: str = "sim"
    tokenizer: str | Path | None = None
    show: Callable[[str], None] = lambda piece: None

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"tokens={self.tokens} is not above 0: nothing would be written")
        if not 0 <= self.temperature < np.inf:
            raise ConfigError(f"temperature={self.temperature:g} is no number from 0 on")
        if self.seed < 0:
            raise ConfigError(f"seed={self.seed} is below 0")


class _Options(TypedDict, total=False):
    """Fields of GenerateOptions, by name."""

    tokens: int
    temperature: float
    seed: int
    device: str
    tokenizer: str | Path | None
    show: Callable[[str], None]


def generate(model: str | Path, text: str, **options: Unpack[_Options]) -> Generated:
    """Writes on behind a text. model: an artifact that was compiled from a GGUF file. options:
    fields of GenerateOptions.

    Raises ModelError for another model, for words that are not its own, and for a text that its
    window has no place for; ConfigError for numbers that mean nothing.
    """
    check_arguments("generate", options, [entry.name for entry in fields(GenerateOptions)])
    asked = GenerateOptions(**options)
    artifact = Artifact.load(model)
    decoder_shape(artifact)
    words = words_for(model, asked.tokenizer)
    rng = np.random.default_rng(asked.seed)
    with TextSession(artifact, asked.device) as session:
        words.check_count(session.shape.words, artifact.name)
        written = _written(session, words, words.tokens(text), asked, rng)
        counted, clock = session.measured(), session.device.clock_mhz
        cycles, name = counted.cycles, session.device.name
        device_seconds = cycles / clock / 1e6 if cycles else counted.device_ns / 1e9
        middle = max(0, session.place - len(written.tokens) // 2 - 1)
    host = host_seconds(artifact, middle)
    return Generated(
        text="".join(written.pieces),
        tokens=tuple(written.tokens),
        ended_by=written.ended_by,
        prompt_tokens=written.prompt,
        prompt_cycles=written.prompt_cycles or None,
        cycles_per_token=cycles or None,
        device=name,
        clock_mhz=clock,
        device_per_second=_per_second(device_seconds),
        host_per_second=_per_second(host),
        per_second=_per_second(device_seconds + host),
    )


def _per_second(seconds: float) -> float:
    return 1 / max(seconds, 1e-9)


def chosen(scores: NDArray[np.float32], temperature: float, rng: np.random.Generator) -> int:
    """A token, by its scores (words,). Raises ConfigError where one is no number."""
    if not np.isfinite(scores).all():
        raise ConfigError("a score is infinite or no number: no token can be chosen")
    if temperature == 0:
        return int(scores.argmax())
    wide = scores.astype(np.float64) / temperature
    shares = np.exp(wide - wide.max()).cumsum()
    return int(np.searchsorted(shares, rng.random() * shares[-1], side="right"))


@dataclass(frozen=True)
class _Written:
    pieces: list[str]
    tokens: list[int]
    prompt: int
    prompt_cycles: int
    ended_by: str


def _written(
    session: TextSession,
    words: Vocabulary,
    prompt: list[int],
    asked: GenerateOptions,
    rng: np.random.Generator,
) -> _Written:
    """Until something ends it."""
    scores, grown = session.next(prompt), words.growing()
    prompt_cycles = session.cycles
    pieces: list[str] = []
    tokens: list[int] = []
    ended_by = ""

    def add(token: int | None) -> None:
        if piece := grown(token):
            pieces.append(piece)
            asked.show(piece)

    while not ended_by:
        token = chosen(scores, asked.temperature, rng)
        if token in words.ends:
            ended_by = "end"
            break
        tokens.append(token)
        add(token)
        if len(tokens) == asked.tokens:
            ended_by = "tokens"
        elif session.place == session.shape.places:
            ended_by = "window"
        else:
            scores = session.next([token])
    add(None)
    return _Written(pieces, tokens, len(prompt), prompt_cycles, ended_by)
