# SPDX-License-Identifier: Apache-2.0
"""The package tflite in parts: the same names, fewer modules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

BEGIN = """
import sys
from loadstone.frontend.tflite_schema import import_in_parts
import_in_parts()
import tflite
"""


def printed(script: str) -> list[str]:
    """By a process of its own, which has not imported the package."""
    words = [sys.executable, "-c", BEGIN + script]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def test_what_is_not_named_is_not_imported() -> None:
    script = """
from tflite.Tensor import Tensor
assert tflite.Tensor is Tensor and tflite.Padding.SAME == 0
import tflite.Model
assert tflite.Model.__name__ == "Model" and isinstance(tflite.Model, type)
print(sum(name.startswith("tflite.") for name in sys.modules))
"""
    (count,) = printed(script)
    assert 3 <= int(count) < 60, count


@pytest.mark.parametrize("name", ["mlpt_vww_int8", "coral_tf2_mnv2_1.0_224_ptq"])
def test_reading_a_network_names_what_it_needs(shared: Any, name: str) -> None:
    """Operators with options of no class among them."""
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    script = f"""
from loadstone.frontend import load
load({str(shared / "models" / f"{name}.tflite")!r})
print(sum(name.startswith("tflite.") for name in sys.modules))
"""
    (count,) = printed(script)
    assert int(count) < 60, count


def test_a_name_that_is_no_modules_imports_the_package_as_it_always_does() -> None:
    script = """
from tflite.Tensor import Tensor
assert tflite.Padding.SAME == 0
tflite.ModelStart
kinds = {name: (type(value).__name__, str(getattr(value, "__name__", value)))
         for name, value in vars(tflite).items() if not name.startswith("__")}
assert tflite.Tensor is Tensor and type(tflite) is type(sys)
for name in [name for name in sys.modules if name.split(".")[0] == "tflite"]:
    del sys.modules[name]
import tflite as whole
assert kinds == {name: (type(value).__name__, str(getattr(value, "__name__", value)))
                 for name, value in vars(whole).items() if not name.startswith("__")}
print(len(kinds))
try:
    whole.NoSuchName
except AttributeError:
    print("refused")
"""
    count, refused = printed(script)
    assert int(count) > 400
    assert refused == "refused"


def test_a_name_that_nobody_has_is_refused() -> None:
    script = """
try:
    tflite.NoSuchName
except AttributeError as error:
    print(type(error).__name__)
"""
    assert printed(script) == ["AttributeError"]
