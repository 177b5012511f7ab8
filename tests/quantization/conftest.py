# SPDX-License-Identifier: Apache-2.0
"""Samples in a file, for the tests of the quantize command.

In:   nothing.
Out:  `samples`, a fixture: the path of an .npz file.
Next: test_pipeline.py, test_pipeline_mistakes.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.float_models import images, small_onnx


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    np.savez(tmp_path / "samples.npz", in0=images(12))
    (tmp_path / "small.onnx").write_bytes(small_onnx())
    return tmp_path / "samples.npz"
