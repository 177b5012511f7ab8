# SPDX-License-Identifier: Apache-2.0
"""What the tests of PyTorch programs share.

In:   an exported program.
Out:  its file; the signal-to-noise ratio of two results.
Next: test_torch.py, test_torch_file.py, test_torch_refusals.py.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed

Array = NDArray[Any]


def saved(program: Any) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def decibels(want: Array, got: Array) -> float:
    """Signal to noise."""
    return float(10 * np.log10(np.sum(want**2) / np.sum((got.reshape(want.shape) - want) ** 2)))
