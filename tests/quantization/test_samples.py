# SPDX-License-Identifier: Apache-2.0
"""Samples that do not fit the network: one line that says what and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.errors import ModelError
from loadstone.quantization.samples import samples_from
from tests.float_models import SHAPE, images, network

PARAMETERS = network().parameters


def spoiled(value: float) -> Any:
    arrays = images(3)
    arrays[1, 0, 2, 3, 4] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (images(2)[:0], "no samples"),
        ({}, "no array in0"),
        ({"x": images(2)}, "no array in0"),
        (images(2)[:, :, :2], "needs [samples, 1, 3, 12, 12]"),
        (images(2)[:, 0], "has shape [2, 3, 12, 12]"),
        (images(2)[:, 0], "; the model has an axis of 1 before them: x[:, None]"),
        (images(2)[0], "; one sample is x[None]"),
        (images(2).astype(np.int8), "is int8"),
        (spoiled(np.nan), "in sample 1"),
        (spoiled(-np.inf), "in sample 1"),
        (images(2).astype(object), "is object"),
    ],
)
def test_mistakes_are_one_line(arrays: Any, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        samples_from(arrays, PARAMETERS, "samples.npz")
    assert words in str(caught.value)
    assert str(caught.value).startswith("samples.npz")
    assert "\n" not in str(caught.value)


def test_floats_are_converted_and_samples_come_one_by_one() -> None:
    arrays = images(5).astype(np.float64)
    samples = samples_from(arrays, PARAMETERS)
    assert len(samples) == 5
    for one, wanted in zip(samples, arrays, strict=True):
        assert one[0].shape == SHAPE
        assert one[0].dtype == np.float32
        np.testing.assert_array_equal(one[0], wanted.astype(np.float32))


def test_the_first_few_are_spread_over_all() -> None:
    samples = samples_from(images(100), PARAMETERS)
    few = samples.first(3)
    np.testing.assert_array_equal(few.arrays[0], samples.arrays[0][[0, 49, 99]])
    assert samples.first(1000) is samples


def test_tensors_and_generators_are_samples() -> None:
    """A tensor is the only input, not a sequence of inputs; a generator gives sample by sample."""

    class Tensor:
        """What of PyTorch's tensors is used."""

        def __init__(self, value: Any) -> None:
            self.value = value

        def __array__(self, *_: Any, **__: Any) -> Any:
            return self.value

    wanted = images(4)
    for given in (Tensor(wanted), (image for image in wanted), {"in0": Tensor(wanted)}):
        np.testing.assert_array_equal(samples_from(given, PARAMETERS).arrays[0], wanted)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="samples are a int, not arrays"):
        samples_from(3, PARAMETERS)  # type: ignore[arg-type]


def test_inputs_have_names() -> None:
    parameters = PARAMETERS
    name = str(parameters[0].name)
    wanted = images(2)
    for given in ({name: wanted}, {"in0": wanted}, {name: wanted, "labels": np.zeros(2)}):
        np.testing.assert_array_equal(samples_from(given, parameters).arrays[0], wanted)
    with pytest.raises(ModelError, match=r"no array in0, which.* found: wrong"):
        samples_from({"wrong": wanted}, parameters)


def test_lists_are_arrays() -> None:
    """Of numbers, whole ones too; of samples, where the network has one input."""
    wanted = np.round(images(3) * 10)
    for given in (
        [wanted],
        [wanted.tolist()],
        [wanted.astype(int).tolist()],
        list(wanted),
        tuple(wanted.tolist()),
    ):
        np.testing.assert_array_equal(samples_from(given, PARAMETERS).arrays[0], wanted)
    with pytest.raises(ModelError, match="samples are no array of numbers"):
        samples_from([[[1.0, 2.0], [3.0]]], PARAMETERS)
    with pytest.raises(ModelError, match=r"samples have shapes .* all samples of input"):
        samples_from(iter([wanted[0], wanted[1][:, :2]]), PARAMETERS)


def test_a_path_is_a_file_of_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", in0=images(2))
    for path in (tmp_path / "x.npz", str(tmp_path / "x.npz")):
        np.testing.assert_array_equal(samples_from(path, PARAMETERS).arrays[0], images(2))
