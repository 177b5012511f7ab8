# SPDX-License-Identifier: Apache-2.0
"""What a choice is kept by, and how a back end is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadstone.backend.interface import Backend
from loadstone.backend.plugins import load_plugins
from loadstone.backend.request import CompileRequest
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.backend.space import space_digest, space_key
from loadstone.errors import ConfigError
from tests.conftest import ROOT
from tests.ir_pass.test_pipeline import convolution

OPERATOR = convolution(16, 1, 1, (16, 16))


def systolic(**values: Any) -> Backend:
    registry = load_plugins([ROOT / "tests/backend/by_hand"], installed=False)
    return registry.backends["systolic-by-hand"](**values)


def test_the_key_has_no_names_and_no_numbers() -> None:
    other = replace(OPERATOR, name="z", weights=OPERATOR.weights + 1)
    assert space_key(systolic(), OPERATOR) == space_key(systolic(), other)
    assert space_key(systolic(dim=8), OPERATOR) != space_key(systolic(), OPERATOR)
    assert space_digest(systolic(tokens=1)) != space_digest(systolic())
    strided = convolution(16, 1, 2, (8, 8))
    assert space_key(systolic(), OPERATOR) != space_key(systolic(), strided)


def test_a_back_end_is_told_what_was_chosen() -> None:
    backend = systolic()
    assert backend.choice(OPERATOR) == {}
    key = space_key(backend, OPERATOR)
    for record, wrong in (
        ({"rows": 2}, ""),
        ({"rows": 3}, "rows=3 was chosen, and its space has 1, 2, 4"),
        ({"k": 1}, "k=1 was chosen, and its space has no value"),
    ):
        schedules = ScheduleChoices({key: record})
        asked = backend.asked(CompileRequest(schedules=schedules))
        if wrong:
            with pytest.raises(ConfigError, match=wrong):
                asked.choice(OPERATOR)
        else:
            assert asked.choice(OPERATOR) == record
            assert not schedules.unused


def test_only_a_back_end_with_a_space_has_schedules() -> None:
    fifo = load_plugins([ROOT / "docs/examples/word_fifo"], installed=False)
    assert fifo.backends["vector-engine"]().schedule_digest == ""
    assert systolic().schedule_digest == space_digest(systolic())
