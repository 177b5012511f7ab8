# SPDX-License-Identifier: Apache-2.0
"""runtime/arrays.py: .npz files of samples, and the difference of two results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import DataType
from loadstone.errors import ModelError
from loadstone.runtime.arrays import as_inputs, compare, misfit, read_arrays, write_arrays
from tests.sample_model import copy_model

TENSORS = copy_model().tensors


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = [np.arange(32, dtype=np.int8).reshape(2, 16), np.ones((2, 3), np.float32)]
    write_arrays(tmp_path / "x.npz", written, "in")
    for got, wanted in zip(read_arrays(tmp_path / "x.npz", TENSORS, "in"), written, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_arrays_may_have_the_tensors_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((1, 16), np.int8), y=np.zeros((1, 16), np.int8))
    first, second = read_arrays(tmp_path / "x.npz", TENSORS, "in")
    assert (first.sum(), second.sum()) == (16, 0)


def test_what_is_missing_or_has_no_sample_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", in0=np.ones((1, 16), np.int8))
    with pytest.raises(ModelError, match=r"has no array in1 \(or 'y'\); it has in0"):
        read_arrays(tmp_path / "x.npz", TENSORS, "in")
    for empty in (np.ones((0, 16), np.int8), np.int8(1)):
        np.savez(tmp_path / "y.npz", in0=empty)
        with pytest.raises(ModelError, match="without a sample"):
            read_arrays(tmp_path / "y.npz", TENSORS[:1], "in")


def test_real_numbers_of_another_width_are_taken() -> None:
    tensor = replace(TENSORS[0], dtype=DataType.FLOAT32)
    for kind in (np.float64, np.float16, np.float32):
        (found,) = as_inputs([np.full((1, 16), 1.1, kind)], [tensor])
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.full((1, 16), kind(1.1), np.float32))
    (kept,) = as_inputs([np.array([np.inf, np.nan])], [tensor])
    assert np.isinf(kept[0])
    with pytest.raises(ModelError, match=r"input 0 holds 1e\+300, and float32 ends at 3\.4e\+38"):
        as_inputs([np.array([1e300])], [tensor])
    (integers,) = as_inputs([np.ones((1, 16), np.int64)], [tensor])
    assert integers.dtype == np.int64, "whoever has integers is asked what they mean"
    assert "x.astype(np.float32)" in misfit(integers, tensor, (16,))
    assert misfit(kept[None], tensor, (2,)) == ""


def test_a_difference_is_counted_and_measured() -> None:
    a = np.array([1, 2, 3, 4], np.int8)
    assert compare("y", a, a).different == 0
    found = compare("y", a, np.array([1, 2, -3, 5], np.int8))
    assert (found.elements, found.different, found.largest) == (4, 2, 6.0)
    assert str(found) == "y: 4 elements compared, 2 different, largest difference 6"


def test_not_a_number_equals_itself_and_is_infinitely_far_from_numbers() -> None:
    nan = np.array([np.nan, 1.0], np.float32)
    assert compare("y", nan, nan).different == 0
    assert compare("y", nan, np.ones(2, np.float32)).largest == np.inf
    big = np.array([2**53 + 1], np.int64)
    assert compare("y", big, big - 1).different == 1  # one apart, where float64 sees none


def test_other_shapes_and_types_are_refused() -> None:
    with pytest.raises(ModelError, match=r"y has shape \(2,\) and type int8, expected"):
        compare("y", np.ones(2, np.int8), np.ones(3, np.int8))
    with pytest.raises(ModelError, match="type int8, expected"):
        compare("y", np.ones(2, np.int8), np.ones(2, np.uint8))
