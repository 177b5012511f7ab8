# SPDX-License-Identifier: Apache-2.0
"""`loadstone.load`: run and profile, from whatever a notebook has at hand."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loadstone
from loadstone.errors import ConfigError, LoadstoneError, ModelError
from tests.sample_model import copy_model

X = np.arange(48, dtype=np.int8).reshape(3, 1, 16)


class Tensor:
    """What of PyTorch's tensors is used."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.value


@pytest.fixture
def model(tmp_path: Path) -> loadstone.LoadedModel:
    copy_model().save(tmp_path / "copy.lds")
    return loadstone.load(tmp_path / "copy.lds")


def test_everything_that_is_an_array_runs(model: loadstone.LoadedModel) -> None:
    for given in (X, list(X), (row for row in X), Tensor(X), {"x": X}):
        (y,) = model.run(given)
        np.testing.assert_array_equal(y, X)


def test_lists_and_names(model: loadstone.LoadedModel) -> None:
    (y,) = model.run(x=X)
    np.testing.assert_array_equal(y, X)
    with pytest.raises(ModelError, match="in their order and by name: give them one way"):
        model.run(X, x=X)
    for given in (X.tolist(), {"in0": X}, {"x": X.tolist(), "y": 0}):
        (y,) = model.run(given)
        np.testing.assert_array_equal(y, X)
        assert y.dtype == X.dtype
    with pytest.raises(LoadstoneError, match=r"'x' is missing; the model's are x; given: X$"):
        model.run({"X": X})
    with pytest.raises(ModelError, match=r"input 0 holds 200, and 'x' takes .* int8, -128 to 127"):
        model.run([[[200] * 16]])
    with pytest.raises(ModelError, match=r"input 0 holds 0\.5"):
        model.run([[[0.5] * 16]])


def test_what_is_none_is_one_line(model: loadstone.LoadedModel) -> None:
    with pytest.raises(ModelError, match=r"input 0 is dict_keys, which is no array of numbers"):
        model.run({}.keys())
    with pytest.raises(LoadstoneError, match=r"'x' has shape .* not \(samples, 1, 16\) and int8"):
        model.run(X.astype(np.float32))
    with pytest.raises(LoadstoneError, match=r"; x\.astype\(np\.int8\) if these are the model's"):
        model.run(X.astype(np.int64))
    with pytest.raises(LoadstoneError, match=r"; one sample is x\[None\]$"):
        model.run(X[0])
    with pytest.raises(LoadstoneError, match=r"an axis of 1 before them: x\[:, None\]$"):
        model.run(X[:, 0])
    with pytest.raises(ModelError, match="no samples: there is nothing to compare"):
        model.compare(X[:0])


def test_it_says_what_it_is(model: loadstone.LoadedModel) -> None:
    assert repr(model) == ("<loadstone model 'copy' for vtaq-1x16x16: int8[1, 16] -> int8[1, 16]>")
    assert "<td" in model._repr_html_()
    report = model.profile()
    assert repr(report).startswith("<profile of 'copy': 1 layers")
    assert "copy on vtaq-1x16x16" in report._repr_html_()


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"net.onnx is not compiled: loadstone.compile"):
        loadstone.load("net.onnx")
    copy_model().save(tmp_path / "copy.lds")
    with pytest.raises(ModelError, match="was compiled for device 'vtaq-1x16x16', not for"):
        loadstone.load(tmp_path / "copy.lds", device="vta-pynq")
    with pytest.raises(ConfigError):
        loadstone.load(tmp_path / "copy.lds", device="nothing")


def test_help_shows_the_functions() -> None:
    for function in (loadstone.quantize, loadstone.compile, loadstone.load):
        assert inspect.isfunction(function)
        assert inspect.getdoc(function)
    assert {"load", "compile", "quantize"} <= set(dir(loadstone))


def test_without_tvm_the_error_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "sys.modules['tvm'] = None\n"
        "import loadstone\n"
        "try:\n    loadstone.compile\n"
        "except loadstone.LoadstoneError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "loadstone.compile: tvm is not installed: pip install 'loadstone[compiler]'"
    )
