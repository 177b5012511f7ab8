# SPDX-License-Identifier: Apache-2.0
"""backend/__init__.py: every public name is documented with an example, and the examples do what
they say."""

from __future__ import annotations

import doctest
import inspect

import pytest

from loadstone.backend import interface as backend
from loadstone.backend.interface import Attribute, Backend
from loadstone.errors import TargetError

EXAMPLES = [
    name
    for name in backend.__all__
    if inspect.isclass(getattr(backend, name)) or inspect.isfunction(getattr(backend, name))
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_public_name_has_an_example_that_holds(name: str) -> None:
    (found,) = doctest.DocTestFinder(recurse=False).find(
        getattr(backend, name), name, globs=dict(vars(backend))
    )
    assert found.examples
    said: list[str] = []
    assert (
        doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
        .run(found, out=said.append)
        .failed
        == 0
    ), "".join(said)


def test_every_method_is_documented() -> None:
    for name, member in vars(Backend).items():
        if not name.startswith("_") and callable(member):
            assert inspect.getdoc(member), name


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
