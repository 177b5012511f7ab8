# SPDX-License-Identifier: Apache-2.0
"""What the tests of PyTorch programs share.

In:   an exported program.
Out:  its file, and that with other JSON in it; the signal-to-noise ratio of two results.
Next: test_torch.py, test_torch_file.py, test_torch_text.py, test_torch_refusals.py.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed

Array = NDArray[Any]
Change = Callable[[dict[str, Any]], None]


def saved(program: Any) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def changed(file: bytes, member: str, change: Change) -> bytes:
    """A file of torch.export.save with another JSON in one of its members."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.namelist():
            content = source.read(entry)
            if entry.partition("/")[2] == member:
                tree = json.loads(content)
                change(tree)
                content = json.dumps(tree).encode()
            target.writestr(entry, content)
    return out.getvalue()


def decibels(want: Array, got: Array) -> float:
    """Signal to noise."""
    return float(10 * np.log10(np.sum(want**2) / np.sum((got.reshape(want.shape) - want) ** 2)))
