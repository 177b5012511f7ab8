# SPDX-License-Identifier: Apache-2.0
"""gguf_decoder.py: what keys mean, and which are refused."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

from loadstone.errors import ModelError
from loadstone.frontend.gguf_decoder import DecoderSizes, decoder_sizes
from loadstone.frontend.gguf_file import GgufFile
from tests.frontend.gguf_models import tiny

GEMMA = {
    "attention__sliding_window": 4,
    "attention__sliding_window_pattern": 2,
    "rope__freq_base_swa": 100.0,
}


def sizes(folder: Path, arch: str = "llama", **changes: Any) -> DecoderSizes:
    path = tiny(folder / "m.gguf", arch, **changes)
    return decoder_sizes(GgufFile(path.read_bytes(), "m.gguf"))


def test_what_keys_say(tmp_path: Path) -> None:
    found = sizes(tmp_path)
    assert (found.layers, found.width, found.heads, found.groups, found.size) == (2, 64, 2, 1, 32)
    assert (found.turned, found.context, found.factor) == (32, 32, 1 / sqrt(32))
    assert (found.neighbours, found.activation, found.embedding_scale) == (True, 0, 1)
    assert (found.windows, found.angles) == ((0, 0), ((10000.0, 1.0),) * 2)
    gemma = sizes(tmp_path, "gemma3", **GEMMA)
    assert (gemma.neighbours, gemma.activation, gemma.embedding_scale) == (False, 1, 8)
    assert (gemma.windows, gemma.angles) == ((4, 0), ((100.0, 1.0), (10000.0, 1.0)))
    assert sizes(tmp_path, attention__key_length=16, rope__dimension_count=8).size == 16


def test_angles(tmp_path: Path) -> None:
    found = sizes(tmp_path, rope__scaling__type="linear", rope__scaling__factor=2.0)
    table = found.table(0, 4, None)
    frequency = 10000.0 ** (-np.arange(0, 32, 2) / 32)
    assert table.shape == (4, 32)
    assert np.array_equal(table[3, :16], np.cos(1.5 * frequency).astype(np.float32))
    assert np.array_equal(table[3, 16:], np.sin(1.5 * frequency).astype(np.float32))
    halved = found.table(0, 4, np.full(16, 2, np.float32))
    assert np.array_equal(halved[2], table[1])


@pytest.mark.parametrize(
    ("arch", "changes", "said"),
    [
        ("mamba", {}, "the architecture 'mamba' is not one of llama, qwen2, qwen3, gemma3"),
        ("llama", {"expert_count": 8}, "llama.expert_count = 8 is not understood"),
        ("qwen2", {"attention__clamp_kqv": 8.0}, "qwen2.attention.clamp_kqv = 8.0 is not under"),
        ("llama", {"rope__scaling__type": "yarn"}, "'yarn', not none or linear"),
        ("llama", {"block_count": None}, "the key llama.block_count is missing"),
        ("llama", {"block_count": 0}, "llama.block_count is 0, not an integer from 1 on"),
        ("llama", {"block_count": 2.5}, "not an integer from 1 on"),
        ("llama", {"attention__head_count_kv": 3}, "not a divisor of the 2 heads"),
        ("llama", {"attention__value_length": 16}, "not the 32 of the keys"),
        ("llama", {"rope__dimension_count": 33}, "not an even number up to 32"),
        ("llama", {"rope__freq_base": -1.0}, "not a number above 0"),
        ("llama", {"rope__freq_base": float("nan")}, "not a number above 0"),
        ("gemma3", {}, "gemma3.attention.sliding_window is None, not a number of places"),
        ("gemma3", {"attention__sliding_window": 4}, "sliding_window_pattern is missing"),
        ("gemma3", {**GEMMA, "block_count": 62}, "gemma3.attention.scale is None"),
        ("qwen2", {"attention__sliding_window": 4}, "sliding_window_pattern is missing"),
    ],
)
def test_what_is_refused(arch: str, changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        sizes(tmp_path, arch, **changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
