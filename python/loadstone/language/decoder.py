# SPDX-License-Identifier: Apache-2.0
"""Tokens through a session: one run for each, its caches in place.

In:   an artifact that was compiled from a GGUF file; a device; tokens.
Out:  TextSession: the scores of the token behind the last one; cycles.
Next: generate.py, perplexity.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.errors import ModelError
from loadstone.runtime import device as devices
from loadstone.runtime.counters import Counters

__all__ = ["DecoderShape", "TextSession", "decoder_shape", "host_seconds"]

_ROUNDS = 5
_PORTS = ("tokens", "place", "scores")


@dataclass(frozen=True)
class DecoderShape:
    """rows: tokens of a run, by entry. places: of its caches. words: that it scores."""

    rows: tuple[int, ...]
    places: int
    words: int


def decoder_shape(artifact: Artifact) -> DecoderShape:
    """Raises ModelError for what was not compiled from a language model."""
    kept = next(
        (s for s in artifact.steps if isinstance(s, HostStep) and s.opcode == HostOpcode.KEEP_ROWS),
        None,
    )
    tensors, rows = artifact.tensors, []
    for entry in map(artifact.only, range(len(artifact.entry_names))):
        ports = [tensors[index] for index in (*entry.inputs, *entry.outputs)]
        if tuple(port.name for port in ports) != _PORTS or kept is None:
            raise ModelError(
                f"model {artifact.name!r} takes no tokens: a language model is compiled from a "
                ".gguf file (docs/language-models.md)"
            )
        rows.append(ports[0].elements)
    assert kept is not None
    places = tensors[kept.outputs[0]].shape[1]
    return DecoderShape(tuple(rows), places, tensors[artifact.outputs[0]].elements)


class TextSession:
    """One text on a device; place: that of the next token. cycles: that the device has
    counted. single: what it counted in the last run of one token. A context
    manager."""

    def __init__(self, artifact: Artifact, device: str = "sim", *, timing: bool = True) -> None:
        """device: as in `loadstone run`. timing: simulated devices count cycles."""
        self.shape = decoder_shape(artifact)
        self.place = self.cycles = 0
        self.single: Counters | None = None
        self._opened = devices.open(device, timing=timing)
        try:
            self._session = self._opened.load(artifact)
        except BaseException:
            self._opened.close()
            raise
        self.device = self._opened.device

    def reset(self) -> None:
        """Begins a new text."""
        self._session.reset()
        self.place = 0

    def next(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """The scores (words,) of what stands behind these tokens, which are kept: one by the entry
        with the fewest rows, several by the one with the most. Raises ModelError where the window
        has no place for them."""
        if not tokens:
            raise ModelError("a text of no tokens: there is nothing to go on from")
        if self.place + len(tokens) > self.shape.places:
            raise ModelError(
                f"{self.place + len(tokens)} tokens are more than the {self.shape.places} places "
                "of the model's window: compile it with --shape window=N, or give less text"
            )
        rows, left = self.shape.rows, list(tokens)
        while left:
            number = rows.index(min(rows) if len(left) == 1 else max(rows))
            count = min(len(left), rows[number])
            self._run(number, left[:count])
            left = left[count:]
        return np.array(self._session.ports[number].outputs[0], np.float32).reshape(-1)

    def _run(self, number: int, tokens: Sequence[int]) -> None:
        given, place = self._session.ports[number].inputs
        given.reshape(-1)[: len(tokens)] = tokens
        given.reshape(-1)[len(tokens) :] = 0
        place.reshape(-1)[:] = self.place, len(tokens)
        self._session.execute(self._session.artifact.entry_names[number])
        self.place += len(tokens)
        counted = self._session.counters
        self.cycles += counted.cycles
        if len(tokens) == 1:
            self.single = counted

    def measured(self) -> Counters:
        """What the device counts for a run of one token: the last one, or one more at the text's
        end, which is lost by it."""
        if self.single is None:
            self.place = max(0, self.place - 1)
            self.next([0])
        assert self.single is not None
        return self.single

    def close(self) -> None:
        """Closes the device."""
        self._opened.close()

    def __enter__(self) -> TextSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def host_seconds(artifact: Artifact, place: int) -> float:
    """Processor time of the host's own steps for a token at this place, on one thread of this
    machine: the median of a few runs on a device that does nothing."""
    with TextSession(artifact, "null") as session:
        taken = []
        for _ in range(_ROUNDS):
            session.place = place
            begin = time.thread_time()
            session.next([0])
            taken.append(time.thread_time() - begin)
    return median(taken)
