# SPDX-License-Identifier: Apache-2.0
"""without_tvm.py: which modules need NumPy and cffi alone."""

from __future__ import annotations

from tests.test_layers import WITHOUT_TVM, matching
from tests.without_tvm import foreign_to, names


def test_what_is_promised_is_among_them() -> None:
    """And so is checked with the types of Python 3.10, and imported there."""
    assert set(matching(WITHOUT_TVM)) <= set(names())
    assert "loadstone.analysis.loaded" in names()  # loadstone.load


def test_what_imports_more_is_none_of_them() -> None:
    assert foreign_to("loadstone.compiler")["tvm"] == "loadstone.relax.compat"
    assert foreign_to("loadstone.analysis.loaded") == {}
    assert "loadstone.compiler" not in names()
    assert not any(name.startswith("loadstone.backend.template.") for name in names())
