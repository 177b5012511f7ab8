# SPDX-License-Identifier: Apache-2.0
"""vta/passes/verified.py: tests verify; others do where they say so."""

from __future__ import annotations

import pytest

from loadstone.vta.passes.verified import verified


def test_tests_verify_and_others_where_they_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified()
    for said, expected in (("1", True), ("yes", True), ("0", False), ("", False)):
        monkeypatch.setenv("LOADSTONE_VERIFY", said)
        assert verified() is expected
    monkeypatch.delenv("LOADSTONE_VERIFY")
    assert not verified()
