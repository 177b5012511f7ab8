# SPDX-License-Identifier: Apache-2.0
"""The package itself: what `help(loadstone)` shows first is the way from a file to numbers, and
its lines do what they say."""

from __future__ import annotations

import pydoc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

import loadstone
from tests.float_models import images, small_onnx

#: In the order in which they are used.
WAY = ("quantize", "compile", "load", "run")


def first_lines(count: int) -> list[str]:
    """Of the help, behind the name of the package."""
    lines = pydoc.plaintext.document(loadstone).splitlines()
    return [line.strip() for line in lines[lines.index("DESCRIPTION") + 1 :]][:count]


def test_help_begins_with_the_way_from_a_file_to_numbers() -> None:
    shown = first_lines(24)
    calls = [re.search(r"\b(quantize|compile|load|run)\(", line) for line in shown]
    assert tuple(call[1] for call in calls if call) == WAY
    told = [line.split()[0] for line in shown if line.split()[1:2] in (["takes"], ["reads"])]
    assert tuple(told) == WAY


def test_the_lines_of_the_help_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("float.onnx").write_bytes(small_onnx())
    assert loadstone.__doc__ is not None
    lines = re.findall(
        r"^    (\w+ = loadstone.*|\w+\.\w+\(.*|\w+ = model.*)$", loadstone.__doc__, re.M
    )
    assert len(lines) == 5
    names: dict[str, Any] = {"loadstone": loadstone, "samples": images(4)}
    exec("\n".join(lines[:4]), names)
    (taken,) = names["model"].inputs
    names["images"] = np.zeros((2, *taken.shape), taken.dtype)
    exec(lines[4], names)
    (output,) = names["outputs"]
    assert len(output) == 2


def test_every_public_name_is_in_the_help() -> None:
    text = pydoc.plaintext.document(loadstone)
    assert {name for name in loadstone.__all__ if name not in text} == {"__version__"}  # a number
