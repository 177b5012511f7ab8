# SPDX-License-Identifier: Apache-2.0
"""relax/quiet.py: what of TVM's own words reaches a user."""

from __future__ import annotations

import os

import pytest

from loadstone.relax.quiet import quietly


def test_warnings_of_generated_code_are_dropped_and_all_else_passes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ZeroDivisionError), quietly():  # noqa: PT012
        os.write(
            2,
            b"[06:08:37] /project/src/op.cc:275: Warning: Detected pow(x, y)\nsomething went "
            b"wrong\n",
        )
        raise ZeroDivisionError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "something went wrong\nafter\n"
