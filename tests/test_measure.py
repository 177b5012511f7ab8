# SPDX-License-Identifier: Apache-2.0
"""tests/measure.py: what a measure counts is found when it is there."""

from __future__ import annotations

import pytest

from tests import measure


def test_a_module_without_a_test_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure.modules_without_test() == []
    monkeypatch.delitem(measure.TESTED_ELSEWHERE, "relax/types")
    assert measure.modules_without_test() == ["relax/types: no tests/relax/test_types.py"]


def test_an_exception_that_is_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measure.TESTED_ELSEWHERE, "numerics", ("test_nothing", "no reason"))
    assert measure.modules_without_test() == [
        "TESTED_ELSEWHERE has 'numerics' for nothing",
        "no tests/test_nothing.py",
    ]


def test_circles_count_imports_inside_functions() -> None:
    assert measure.import_circles() == []
    assert "loadstone.relax.saved" in measure.imports_of("loadstone.graph.reference")
