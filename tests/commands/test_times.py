# SPDX-License-Identifier: Apache-2.0
"""times.py: what is a time, how many there must be; what is refused names the option."""

from __future__ import annotations

from fractions import Fraction

import pytest

from loadstone.commands.times import is_time, time_ns, times_ns
from loadstone.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "ns"),
    [("7ns", 7), ("0.25us", 250), ("20ms", 20_000_000), ("1s", 10**9), ("0.5ns", Fraction(1, 2))],
)
def test_times_are_exact(text: str, ns: Fraction) -> None:
    assert is_time(text)
    assert time_ns(text, "--host") == ns
    assert times_ns(f"{text},3us", "--periods", 2) == [ns, 3000]


@pytest.mark.parametrize("text", ["", "20", "ms", "-1ms", "1e3us", "1 ms", "1.ms", "1h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    assert not is_time(text)
    with pytest.raises(ConfigError, match="--overhead .* is no time"):
        time_ns(text, "--overhead")


def test_there_is_one_for_each() -> None:
    with pytest.raises(ConfigError, match="for each model is wanted, 3, not 2"):
        times_ns("1ms,2ms", "--periods", 3)
    with pytest.raises(ConfigError, match="not above 0"):
        times_ns("1ms,0ms", "--periods", 2)
