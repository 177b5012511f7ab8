# SPDX-License-Identifier: Apache-2.0
"""The demo's network: handwritten digits, trained by this project's own script.

In:   scikit-learn's digits data set (a dependency of the `dev` extra).
Out:  digits.onnx, the float network, and the samples it was trained and is tested on.
Next: `loadstone demo` quantizes, compiles and runs it; tools/train_digits.py made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoadstoneError

__all__ = ["Digits", "load_digits", "network_path"]

#: How many of the 1,797 images are kept for the test, and the seed of the stratified draw.
TEST_IMAGES = 600
SPLIT_SEED = 0


@dataclass(frozen=True, eq=False)
class Digits:
    """images: float32 (N, 1, 8, 8), ink from 0 to 16. labels: int64 (N,), the digits."""

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def load_digits() -> Digits:
    """The data set, split into 1,197 images to train and calibrate with and 600 to test; the same
    split every time."""
    try:
        from sklearn import datasets, model_selection
    except ModuleNotFoundError as error:
        raise LoadstoneError(
            "the digits data set comes with scikit-learn, which is not installed: pip "
            "install scikit-learn"
        ) from error
    pixels, labels = datasets.load_digits(return_X_y=True)
    images = pixels.reshape(-1, 1, 8, 8).astype(np.float32)
    split = model_selection.train_test_split(
        images,
        labels.astype(np.int64),
        test_size=TEST_IMAGES,
        random_state=SPLIT_SEED,
        stratify=labels,
    )
    train_images, test_images, train_labels, test_labels = split
    return Digits(train_images, train_labels, test_images, test_labels)


def network_path() -> Path:
    """The float network: input "image" float32 (1, 1, 8, 8), output "scores" float32 (1, 10), not
    normalised."""
    return Path(str(files(__package__) / "digits.onnx"))
