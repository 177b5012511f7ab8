# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/ml.py: scikit-learn's networks, as skl2onnx exports them, give ONNX Runtime's
labels and chances in C; what has no number is refused with the remedy."""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
if find_spec("skl2onnx") is None or find_spec("sklearn") is None:  # slow to import: where it runs
    pytest.skip("skl2onnx is not installed (the extra `dev`)", allow_module_level=True)

from loadstone.artifact.format import Artifact
from loadstone.compiler import Compiled, compile, quantize
from loadstone.errors import UnsupportedError
from loadstone.frontend import load
from loadstone.frontend.reading import Reading
from loadstone.runtime.device import open as open_device
from tests.onnx_builder import session

ROWS = np.random.default_rng(2).normal(size=(64, 6)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0).astype(np.int64) + (ROWS[:, 1] > 0)
LABELS = np.array([3, 5, 10])


def trained(model: Any, targets: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, and need not
        return model.fit(ROWS, targets)


@lru_cache(maxsize=4)
def classifier(texts: bool = False) -> Any:
    """A trained network of one hidden layer."""
    labels = np.array(list("abc")) if texts else LABELS
    from sklearn import neural_network

    made = neural_network.MLPClassifier((8,), solver="lbfgs", max_iter=20, random_state=0)
    return trained(made, labels[CLASSES])


def exported(model: Any, **options: Any) -> bytes:
    import skl2onnx

    made = skl2onnx.to_onnx(model, ROWS[:1], target_opset=17, options=options or None)
    return bytes(made.SerializeToString())


def results(found: Compiled) -> list[Any]:
    """Of every row, by the C runtime alone: (rows, 1, ...) each."""
    assert not found.python_steps
    artifact = Artifact.from_bytes(found.artifact.to_bytes())
    with open_device("sim") as device, device.load(artifact, trust=True) as opened:
        return list(opened.run([ROWS[:, None]]))


def wanted(model: bytes) -> list[Any]:
    opened = session(model)
    return list(opened.run(None, {opened.get_inputs()[0].name: ROWS}))


def test_a_classifier_quantized_and_in_bfloat16(tmp_path: Path) -> None:
    """Most labels are those of the float network, whose matrix of chances is its second output."""
    model, path = exported(classifier(), zipmap=False), tmp_path / "m.onnx"
    path.write_bytes(model)
    labels, chances = wanted(model)
    assert set(labels) == set(LABELS)
    small = compile(quantize(path, ROWS[:, None]), "vtaq-1x16x16")
    for found in (small, compile(path, "vtab-1x16x16")):
        got = results(found)
        assert np.mean(got[0].reshape(-1) == labels) > 0.9
        np.testing.assert_allclose(got[1].reshape(-1, 3), chances, atol=0.1)


def test_dictionaries_are_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(exported(classifier()))
    labels, chances = wanted(path.read_bytes())
    got = results(compile(path, "vtaq-1x16x16", as_float=True))
    assert np.array_equal(got[0].reshape(-1), labels)
    rows = [[row[label] for label in LABELS] for row in chances]
    np.testing.assert_allclose(got[1].reshape(-1, 3), rows, rtol=1e-5, atol=1e-7)


def test_a_regressor(tmp_path: Path) -> None:
    from sklearn import neural_network

    made = neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=5, random_state=0)
    path = tmp_path / "m.onnx"
    path.write_bytes(exported(trained(made, ROWS[:, 0])))
    (got,) = results(compile(path, "vtaq-1x16x16", as_float=True))
    (want,) = wanted(path.read_bytes())
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)


def test_labels_that_are_texts_are_refused_with_what_can_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(exported(classifier(texts=True), zipmap=False))
    with pytest.raises(UnsupportedError, match="cut it with --outputs ") as caught:
        load(path)
    name = str(caught.value).partition("--outputs ")[2].split(",")[0]
    assert len(load(path, Reading(outputs=(name,)))["main"].params) == 1
