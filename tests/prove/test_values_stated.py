# SPDX-License-Identifier: Apache-2.0
"""prove/values.py: elements of the network that are stated many at once."""

from __future__ import annotations

import numpy as np

from loadstone.prove.functions import FunctionKind
from loadstone.prove.values import Values


def test_equal_functions_that_are_stated_together_are_one_element() -> None:
    """Of sources of which no element was stated before, and of some of which one was."""
    values = Values()
    sources, _ = values.origin(values.opaque(np.full(50, -128), np.full(50, 127)))
    sources, identity = sources[45:], np.full((5, 1), values.identity)
    once = values.functions.make(FunctionKind.MAX, np.full((5, 1), 3), identity)
    twice = values.functions.make(FunctionKind.MAX, np.full((5, 1), -7), once[:, None])
    other = values.functions.make(FunctionKind.MIN, np.full((5, 1), 3), identity)
    before = values.define(sources[:2], once[:2])
    made = values.define(np.tile(sources, 3), np.concatenate([twice, other, once]))
    assert made[:5].tolist() == made[10:].tolist()
    assert made[:2].tolist() == before.tolist()
    assert len(set(made.tolist())) == 10
    again = values.define(np.tile(sources, 3), np.concatenate([other, once, twice]))
    assert again.tolist() == np.roll(made, -5).tolist()
    stored = values.stored(np.tile(sources, 3), np.concatenate([twice, other, once]))
    assert stored.tolist() == made.tolist()
