# SPDX-License-Identifier: Apache-2.0
"""The packages' tests use fixtures of the main ones."""

from __future__ import annotations

from tests.conftest import shared

__all__ = ["shared"]
