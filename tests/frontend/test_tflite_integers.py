# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_integers.py: operations of Relax give the integers of numerics.py."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.frontend.tflite_integers import Integers
from loadstone.relax.compat import relax


def test_one_constant_for_each_value() -> None:
    """A step in C names at most 255 inputs, and an unrolled layer uses the same numbers over and
    over."""
    integers = Integers(relax.BlockBuilder())
    assert integers.number([1, 2]) is integers.number(np.array([1, 2], np.int32))
    assert integers.number([1, 2]) is not integers.number([[1, 2]])
