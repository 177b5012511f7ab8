# SPDX-License-Identifier: Apache-2.0
"""Times of the command line, such as 20ms.

In:   the words of an option.
Out:  nanoseconds, exact.
Next: commands/bound.py; commands/export.py.
"""

from __future__ import annotations

import re
from fractions import Fraction

from loadstone.errors import ConfigError

__all__ = ["is_time", "time_ns", "times_ns"]

_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ns|us|ms|s)")
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def is_time(text: str) -> bool:
    """Whether it is one.

    >>> is_time("20ms"), is_time("20")
    (True, False)
    """
    return _TIME.fullmatch(text) is not None


def time_ns(text: str, option: str) -> Fraction:
    """Nanoseconds. Raises ConfigError, which names the option, for a text that is no time.

    >>> time_ns("1.5us", "--host")
    Fraction(1500, 1)
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConfigError(f"{option} {text!r} is no time, such as 20ms or 50us")
    return Fraction(found[1]) * _NS[found[2]]


def times_ns(text: str, option: str, count: int) -> list[Fraction]:
    """As many as there are models, separated by commas, each above 0. Raises ConfigError."""
    found = [time_ns(each, option) for each in text.split(",")]
    if len(found) != count:
        raise ConfigError(
            f"{option} {text}: a time for each model is wanted, {count}, not {len(found)}"
        )
    if min(found) <= 0:
        raise ConfigError(f"{option} {text}: a time is not above 0")
    return found
