# SPDX-License-Identifier: Apache-2.0
"""backend/schedule_choices.py: who was asked for is known."""

from __future__ import annotations

from loadstone.backend.schedule_choices import ScheduleChoices


def test_what_was_not_asked_for_is_known() -> None:
    choices = ScheduleChoices({"a": {"tile": [1]}, "b": {}})
    assert choices.unused == ["a", "b"]
    assert choices.record("a") == {"tile": [1]}
    assert choices.record("c") == {}
    assert choices.unused == ["b"]
