# SPDX-License-Identifier: Apache-2.0
"""backend/__init__.py: every public name is documented with an example, and the examples do what
they say."""

from __future__ import annotations

import doctest
import inspect

import pytest

from loadstone.backend import interface as backend
from loadstone.backend.interface import Backend

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
