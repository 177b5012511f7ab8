# SPDX-License-Identifier: Apache-2.0
"""gguf.py: sliding windows that a file's keys say, against an independent decoder in NumPy, bit by
bit, beyond the window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

import loadstone
from loadstone.frontend import Reading
from loadstone.runtime.device import OpenedDevice
from tests.frontend.gguf_models import Reference, tiny

PLACES = 8
READING = Reading(shapes={"window": (PLACES,)})
GEMMA = {
    "attention__sliding_window": 3,
    "attention__sliding_window_pattern": 2,
    "rope__freq_base_swa": 100.0,
}


def test_a_sliding_window_on_a_device(tmp_path: Path) -> None:
    """Seven tokens with a window of three in every other layer: scores are the independent
    decoder's, which forgets what its window leaves."""
    path = tiny(tmp_path / "m.gguf", "gemma3", **GEMMA)
    compiled = loadstone.compile(path, "vtaq-1x16x16", reading=READING, rows=1)
    slides, whole = Reference(path), Reference(path)
    whole.keys["attention.sliding_window"] = PLACES
    apart, opened = [], OpenedDevice("sim", "", compiled.device)
    with opened as device, device.load(compiled.artifact) as session:
        for place, token in enumerate((7, 3, 49, 0, 11, 5, 6)):
            given = [np.array([[token]], np.int32), np.array([[place, 1]], np.int32)]
            (scores,) = session.run(given)
            wanted = slides.next(token)
            assert np.array_equal(np.asarray(scores).reshape(-1), wanted), place
            apart.append(not np.array_equal(whole.next(token), wanted))
    assert apart == [False] * 3 + [True] * 4  # the window matters
