# SPDX-License-Identifier: Apache-2.0
"""frontend/reading.py: sizes as a user says them."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError
from loadstone.frontend.reading import Reading, parse_shapes


def test_sizes_by_name() -> None:
    assert parse_shapes(["x=1,3,224,224", "a=b=2"]) == {"x": (1, 3, 224, 224), "a=b": (2,)}


@pytest.mark.parametrize("text", ["x", "=1", "x=", "x=1,,2", "x=0", "x=-1", "x=1x2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME=1,3,224,224"):
        parse_shapes([text])


def test_nothing_said_is_the_whole_model() -> None:
    assert Reading().is_whole
    assert not Reading(outputs=("y",)).is_whole
