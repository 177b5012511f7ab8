# SPDX-License-Identifier: Apache-2.0
"""partition/prepare.py: operators on rows are for the runtime that has them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.frontend import load
from loadstone.partition.prepare import relax_passed
from loadstone.relax.compat import bindings
from loadstone.relax.row_calls import row_call
from tests.relax.test_dynamic_rows import CALLS, dense


@pytest.mark.parametrize("own_runtime", [True, False])
def test_rows_are_steps_of_the_own_runtime_alone(own_runtime: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    dense().save(path)
    made = relax_passed(load(path), [], own_runtime=own_runtime)
    said = (row_call(call) for _, call in bindings(made["main"]))
    assert [call[0] for call in said if call is not None] == (CALLS if own_runtime else [])
