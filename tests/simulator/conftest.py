"""What tests of the hardware need: Verilator, or they are skipped, with a reason (in CI they
fail)."""

from __future__ import annotations

import pytest

from tests.board.tools import need


@pytest.fixture(scope="session")
def verilator() -> None:
    """Skips where Verilator is absent."""
    need("verilator", "verilator")
