# SPDX-License-Identifier: Apache-2.0
"""A small language model with words, compiled once.

In:   tests/frontend/gguf_models.py's decoder of random weights.
Out:  its GGUF file, and its artifact with the words beside it.
Next: the tests of language/ and of its commands.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import loadstone
from loadstone.frontend import Reading
from tests.frontend.gguf_models import tiny

__all__ = ["PLACES", "small"]

PLACES = 24


@cache
def small(target: str = "vtaq-1x16x16", arch: str = "llama") -> tuple[Path, Path]:
    """(GGUF file, artifact), its window of 24 places."""
    folder = Path(mkdtemp(prefix="loadstone-texts-"))
    path = tiny(folder / "small.gguf", arch, words={})
    reading = Reading(shapes={"window": (PLACES,)})
    loadstone.compile(path, target, reading=reading).save(folder / "small.lds")
    return path, folder / "small.lds"
