# SPDX-License-Identifier: Apache-2.0
"""Which choices are asked for: the same for a seed, none twice, and not more than was allowed."""

from __future__ import annotations

import pytest

from loadstone.search.tune_layer import LayerTrial
from loadstone.search.tune_study import BATCH, LayerStudy
from loadstone.vta.schedule.choices import LayerChoice

pytest.importorskip("optuna", reason="Optuna is not installed (the extra `search`)")

CHOICES = [LayerChoice(), *(LayerChoice((size,)) for size in range(1, 32))]


def asked(seed: int, most: int) -> tuple[list[LayerChoice], LayerStudy]:
    """All that a study asks for; a choice takes 1000 cycles, less what its tile is near to 30; one
    of 7 cannot be done."""
    study, found = LayerStudy(CHOICES, seed, most), []
    while batch := study.ask():
        found += batch
        study.tell({choice: trial(choice) for choice in batch})
    return found, study


def trial(choice: LayerChoice) -> LayerTrial | None:
    (size,) = choice.tile or (0,)
    return None if size == 7 else LayerTrial(1000 + abs(size - 30), 500, size, 10)


def test_the_same_seed_asks_for_the_same() -> None:
    first, _ = asked(5, 24)
    assert first == asked(5, 24)[0]
    assert first != asked(6, 24)[0]
    assert len(set(first)) == len(first) == 24


def test_the_most_promising_come_first() -> None:
    assert asked(0, 12)[0][:BATCH] == CHOICES[:BATCH]
    assert asked(0, 3)[0] == CHOICES[:3]


def test_all_are_tried_where_there_are_few() -> None:
    found, study = asked(0, 100)
    assert set(found) == set(CHOICES)
    assert study.best(2) == [LayerChoice((30,)), LayerChoice((29,))]
    assert study.bound == 500
