# SPDX-License-Identifier: Apache-2.0
"""backend/attribute.py: values have a type and limits, and the message names them."""

from __future__ import annotations

import pytest

from loadstone.backend.attribute import Attribute
from loadstone.errors import TargetError


@pytest.mark.parametrize(
    ("attribute", "text", "message"),
    [
        (Attribute("lanes", 4, "", range(1, 9)), "9", r"npu -lanes=9 is not in \[1, 8\]"),
        (Attribute("lanes", 4, "", (4, 8)), "5", "npu -lanes=5 is not one of 4, 8"),
        (Attribute("mode", "a", "", ("a", "b")), "c", "npu -mode=c is not one of a, b"),
        (Attribute("fast", True, ""), "yes", "npu -fast=yes is neither true nor false"),
        (Attribute("lanes", 4, ""), "four", "npu -lanes=four is not an integer"),
    ],
)
def test_values_that_are_not_allowed_are_named(
    attribute: Attribute, text: str, message: str
) -> None:
    with pytest.raises(TargetError, match=message):
        attribute.value(text, "npu")


def test_values_are_typed() -> None:
    assert Attribute("lanes", 4, "", range(1, 9)).value("0x8", "npu") == 8
    assert Attribute("fast", True, "").value("false", "npu") is False
    assert Attribute("mode", "a", "").value("b", "npu") == "b"
