# SPDX-License-Identifier: Apache-2.0
"""A model read for a proof and evaluated in NumPy, beside what its framework computes.

In:   the bytes of a model, inputs.
Out:  how many elements differ.
Next: test_read_tflite.py and test_read_onnx.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.network import ModelNetwork
from tests.prove.definition import outputs

__all__ = ["GOLDEN", "MODELS", "differing", "golden_differs"]

MODELS = Path(__file__).parents[3] / "shared/models"
GOLDEN = MODELS / "golden"


def differing(
    network: ModelNetwork, inputs: Sequence[NDArray[Any]], wanted: Sequence[NDArray[Any]]
) -> int:
    """Elements of the outputs that differ; types and shapes must be equal."""
    found = 0
    for got, want in zip(outputs(network, inputs), wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        found += int(np.count_nonzero(got != want))
    return found


def golden_differs(network: ModelNetwork, file: str, samples: int = 1) -> int:
    """Elements that differ from the framework's own, for the first samples of a real model."""
    found = 0
    with np.load(GOLDEN / f"{file}.npz") as arrays:
        for sample in range(samples):
            inputs = [
                arrays[f"in{k}"][sample].reshape(network.tensors[index].shape)
                for k, index in enumerate(network.inputs)
            ]
            wanted = [
                arrays[f"out{k}"][sample].reshape(network.tensors[index].shape)
                for k, index in enumerate(network.outputs)
            ]
            found += differing(network, inputs, wanted)
    return found
