# SPDX-License-Identifier: Apache-2.0
"""quantization/options.py: names that mean nothing, and two ways for one thing, are refused."""

from __future__ import annotations

import pytest

from loadstone.errors import LoadstoneError
from loadstone.quantization.options import Options, checked


def test_names_are_filled_in() -> None:
    found = checked(Options())
    assert (found.scheme, found.method) == ("affine", "expected")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(scheme="pow3"), "scheme 'pow3' does not exist"),
        (Options(method="max"), "method 'max' does not exist"),
        (Options(half_up=True), "half_up is said with scheme 'affine'"),
        (Options(keep_float="all"), "keep_float 'all' does not exist: the only value is auto"),
        (Options(keep_16="all"), "keep_16 'all' does not exist: the only value is auto"),
        (Options(keep_float="auto", keep_16="auto"), "two ways for the same layers"),
        (Options(host_cycles=-1), "host_cycles is -1"),
    ],
)
def test_mistakes_are_named(options: Options, words: str) -> None:
    with pytest.raises(LoadstoneError, match=words):
        checked(options)
