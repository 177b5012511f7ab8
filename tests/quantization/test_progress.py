# SPDX-License-Identifier: Apache-2.0
"""What a quantization says on a terminal, from its first second on."""

from __future__ import annotations

import pytest

from loadstone.compiler import quantize
from loadstone.quantization.progress import phase, progress
from tests.float_models import images, module


def test_a_phase_is_said_while_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    with phase("reading", show=True):
        assert "reading ..." in capsys.readouterr().err
    assert capsys.readouterr().err.endswith("\r\033[K"), "and is gone then"
    with phase("reading", show=False):
        pass
    assert list(progress([1, 2], "counting", show=False)) == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_quantization_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    quantize(module(), images(2), show=True)
    said = capsys.readouterr().err
    places = [said.index(word) for word in ("reading", "compiling the float", "calibrate")]
    assert places == sorted(places)
