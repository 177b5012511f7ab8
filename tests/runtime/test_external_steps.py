# SPDX-License-Identifier: Apache-2.0
"""runtime/external_steps.py: what calls of functions took (the rest: test_session.py)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from loadstone.numerics import Array
from loadstone.runtime import device
from loadstone.runtime.external_steps import CallTimes
from tests.runtime.test_device import external_model
from tests.sample_model import copy_model


def test_a_first_call_that_prepares_counts_as_the_second() -> None:
    times = CallTimes()
    assert times.added(3, 90.0) == 90.0  # it is all that is known
    assert 90.0 + times.added(3, 2.0) == pytest.approx(2.0 + 2.0)
    assert times.added(3, 5.0) == 5.0
    assert times.added(4, 1.0) == 1.0  # another step
    assert times.added(4, 7.0) == 7.0  # a first call that was the quicker one is as it is


def test_what_a_function_compiles_first_is_not_the_time_of_a_run() -> None:
    calls = []

    def total(arrays: Sequence[Array], text: str) -> list[Array]:
        calls.append(text)
        time.sleep(2.0 if len(calls) == 1 else 0.0)
        return [arrays[0].astype(np.int32).sum(axis=1)]

    device.register_external("tests.total", total)
    x = np.zeros((2, *copy_model().tensors[0].shape), np.int8)
    with device.open() as dev, dev.load(external_model()) as session:
        session.run([x[:1]])
        assert session.totals.external_seconds["tests"] >= 2.0
        session.run([x[:1]])
        assert 0 < session.totals.external_seconds["tests"] < 2.0
