# SPDX-License-Identifier: Apache-2.0
"""Choices hold inside `using`, and who was asked for is known."""

from __future__ import annotations

from loadstone.backend.schedule_choices import ScheduleChoices, in_force, using


def test_choices_hold_inside() -> None:
    choices = ScheduleChoices({"a": {"tile": [1]}, "b": {}})
    assert in_force() is None
    with using(choices):
        assert in_force() is choices
        with using(None):
            assert in_force() is None
        assert choices.record("a") == {"tile": [1]}
        assert choices.record("c") == {}
    assert in_force() is None
    assert choices.unused == ["b"]
