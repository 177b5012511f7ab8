# SPDX-License-Identifier: Apache-2.0
"""tests/measure.py: what a measure counts is found when it is there."""

from __future__ import annotations

import ast
import importlib

import pytest

from tests import measure
from tests.unused_names import unused_names


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


@pytest.mark.parametrize("package", ["loadstone", "loadstone.backend"])
def test_a_name_that_a_package_hands_on_imports_its_module(package: str) -> None:
    """When it is asked for: no statement of the package says so."""
    said = next(
        ast.literal_eval(node.value)
        for node in measure.tree_of(package).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    handed = measure.handed_on(package)
    assert set(said) - handed.keys() <= {"LoadstoneError", "__version__"}
    module = importlib.import_module(package)
    for name, held_by in handed.items():
        assert getattr(module, name) is getattr(importlib.import_module(held_by), name)


def test_a_module_imports_what_a_package_hands_on_to_it() -> None:
    """Mutants of the judge are made where no module that imports it is loaded."""
    assert "loadstone.backend.program" in measure.imports_of(
        "loadstone.backend.template.isa_backend"
    )


def test_state_that_no_argument_carries_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure.state_of_modules() == []
    source = """
import threading
from contextvars import ContextVar
_current = ContextVar("current")
_mine = threading.local()
_kept: dict[int, str] = {}
_names = ["a"]
_TABLE = {"a": 1}
_number = 0

def keep(key):
    _kept[key] = _TABLE["a"]
    _names.append(key)

def own(_TABLE):
    _TABLE["a"] = 2
    _names = []
    _names.append(1)

def count():
    global _number
    _number += 1
"""
    found = set(measure._state_of("loadstone.vta.tried", ast.parse(source)))
    assert found == {
        "vta.tried: ContextVar",
        "vta.tried: threading.local",
        "vta.tried._kept",
        "vta.tried._names",
        "vta.tried._number",
    }
    monkeypatch.delitem(measure.PROCESS_STATE, "vta.simulator.signals._raised")
    monkeypatch.setitem(measure.PROCESS_STATE, "vta.operators.tried._kept", "no reason")
    assert measure.state_of_modules() == [
        "vta.simulator.signals._raised",
        "PROCESS_STATE has 'vta.operators.tried._kept' for nothing",
    ]


def test_a_name_that_only_all_lists_is_unused() -> None:
    source = """
__all__ = ["KeptByNobody", "kept_by_nobody", "taken"]

def taken():
    return KeptBySomebody

def kept_by_nobody():
    return taken()

class KeptBySomebody:
    def kept_method_of_nobody(self):
        return 1

@importer("aten.kept")
def _kept_by_a_table():
    return 1

class KeptByNobody:
    pass
"""
    found = unused_names({"loadstone.tried": ast.parse(source)})
    assert [name.partition(" ")[2] for name in found] == [
        "kept_by_nobody",
        "KeptByNobody",
        "kept_method_of_nobody",
    ]
