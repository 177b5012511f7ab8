# SPDX-License-Identifier: Apache-2.0
"""The built lab, as tests/lab has it."""

from tests.lab.conftest import lab

__all__ = ["lab"]
