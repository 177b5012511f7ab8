# SPDX-License-Identifier: Apache-2.0
"""runtime/ports.py: samples to and from the memory of an entry's inputs and outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.runtime.ports import EntryPorts
from tests.sample_model import copy_model

MODEL = copy_model()
#: The same for a device that takes two samples at once.
PAIR = replace(
    MODEL, samples=2, tensors=tuple(replace(t, shape=(2, *t.shape[1:])) for t in MODEL.tensors)
)


def ports() -> EntryPorts:
    return EntryPorts(0, PAIR, (np.full((2, 16), 9, np.int8),), (np.zeros((2, 16), np.int8),))


def test_the_rest_of_a_batch_is_zeros() -> None:
    own, x = ports(), np.arange(48, dtype=np.int8).reshape(3, 1, 16)
    (array,) = own.checked(x, allow_nan=False)
    own.bring([array], 2, 3)
    np.testing.assert_array_equal(own.inputs[0], np.stack([x[2, 0], np.zeros(16, np.int8)]))
    own.outputs[0][...] = 5
    (out,) = own.empty_outputs(3)
    out[...] = 1
    own.take([out], 2, 3)
    np.testing.assert_array_equal(out[:, 0, 0], [1, 1, 5])


def test_an_array_of_another_shape_is_refused_by_name() -> None:
    with pytest.raises(DeviceError, match="'x'"):
        ports().checked(np.zeros((3, 1, 15), np.int8), allow_nan=False)
