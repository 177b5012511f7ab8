# SPDX-License-Identifier: Apache-2.0
"""Mutated GGUF files, and mutated words beside an artifact: each is read, or refused in one line.

In:   a small decoder with words; a number of seconds.
Out:  how many were accepted and refused; what ended otherwise.
Next: `python -m tests.fuzz language`.

The header is a few kilobytes of keys, names and lengths in front of the weights: most mutations
change something there. A file that is accepted is imported whole now and then, and its words make
tokens of a text.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np

from loadstone.errors import LoadstoneError
from loadstone.frontend import gguf
from loadstone.frontend.gguf_decoder import decoder_sizes
from loadstone.frontend.gguf_file import GgufFile
from loadstone.frontend.gguf_words import words_of
from loadstone.language.words import Vocabulary, save_words, words_for, words_path
from tests.frontend.gguf_models import tiny

__all__ = ["fuzz"]

#: So many at least, however slow the machine is.
LEAST = 60
#: Lengths, counts and offsets that a hostile file says.
_HUGE = (0, 1, 31, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
_WHOLE_EVERY = 16


def fuzz(seconds: float, folder: Path, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Verdicts, and what was wrong."""
    rng, end = np.random.default_rng(seed), time.monotonic() + seconds
    data = tiny(folder / "m.gguf", words={}).read_bytes()
    artifact = folder / "m.lds"
    artifact.write_bytes(bytes(64))
    save_words(words_of(GgufFile(data, "m.gguf")), artifact)
    said = words_path(artifact).read_bytes()
    head = data.index(b"output_norm.weight") + 4096  # keys, and most of the tensors' entries
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    while time.monotonic() < end or sum(counts.values()) < LEAST:
        number = sum(counts.values())
        is_words = number % 4 == 3
        mutant = _mutant(said, len(said), rng) if is_words else _mutant(data, head, rng)
        try:
            if is_words:
                words_path(artifact).write_bytes(mutant)
                words_for(artifact).tokens("in the")
            else:
                _read(mutant, whole=number % _WHOLE_EVERY == 0)
            counts["accepted"] += 1
        except LoadstoneError as error:
            counts["refused"] += 1
            if "\n" in str(error) or len(str(error)) > 500:
                wrong.append(f"a refusal of more than a line: {error!r}")
        except Exception as error:  # the very thing that is looked for
            counts["traceback"] += 1
            (folder / f"{number}.bin").write_bytes(mutant)
            wrong.append(f"mutant {number}: {type(error).__name__}: {str(error)[:200]}")
    return counts, wrong


def _read(data: bytes, *, whole: bool) -> None:
    file = GgufFile(data, "m.gguf")
    decoder_sizes(file)
    for name in file.tensors:
        file.real(name)
    Vocabulary(words_of(file), "m.gguf").tokens("in the")
    if whole:
        gguf.from_bytes(data, "m.gguf")


def _mutant(data: bytes, head: int, rng: np.random.Generator) -> bytes:
    """Cut, or changed at a few places of its head."""
    if rng.integers(6) == 0:
        return data[: rng.integers(len(data))]
    made = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(min(head, len(made) - 8)))
        kind = rng.integers(4)
        if kind == 0:
            made[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            made[at : at + 8] = _HUGE[rng.integers(len(_HUGE))].to_bytes(8, "little")
        elif kind == 2:
            del made[at : at + int(rng.integers(1, 40))]
        else:
            piece = made[at : at + int(rng.integers(1, 40))]
            made[at:at] = piece
    return bytes(made)
