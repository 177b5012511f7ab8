# SPDX-License-Identifier: Apache-2.0
"""bench/language.py with a small model: both devices equal the independent decoder in every bit of
tokens, scores and caches; and what differs is noticed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")

from tests.bench import language
from tests.bench.language import equal_places
from tests.frontend.gguf_models import Reference
from tests.language.texts import small


@pytest.mark.parametrize("device", language.DEVICES)
def test_every_bit(device: str) -> None:
    assert equal_places(*small(device), 12, "in the") == 12


def test_a_bit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a score at the fourth token; of a cache at the end."""
    real = Reference.next

    def wrong_score(self: Reference, token: int) -> object:
        scores = real(self, token)
        if self.place == 5:  # behind a prompt of two, and three tokens
            scores[-1] = np.nextafter(scores[-1], np.float32(np.inf))
        return scores

    def wrong_cache(self: Reference, token: int) -> object:
        scores = real(self, token)
        if self.place == 8:
            self.caches[1]["v"][3][0][0, 5] ^= 1
        return scores

    monkeypatch.setattr(Reference, "next", wrong_score)
    assert equal_places(*small(), 6, "in the") == 3
    monkeypatch.setattr(Reference, "next", wrong_cache)
    assert equal_places(*small(), 6, "in the") == 5


def test_memory_is_the_command_s_own() -> None:
    """Not that of the process which starts it."""
    ballast = np.ones(30 << 20)  # 240 MiB
    _, small = language.measured([sys.executable, "-c", "pass"])
    _, large = language.measured([sys.executable, "-c", "x = bytearray(b'x') * (100 << 20)"])
    assert small < 60 < 100 < large < ballast.nbytes / (1 << 20)


def test_a_limit_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert language.said("x", 2.0, 2)
    assert not language.said("x", 2.01, 2)
    assert capsys.readouterr().out == "x: 2 (at most 2)\nx: 2.01 (at most 2)\n"
