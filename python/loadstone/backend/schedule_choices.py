# SPDX-License-Identifier: Apache-2.0
"""The schedules of layers, where a better one than the cost model's was found.

In:   records by key; the back end defines the meaning of both.
Out:  `ScheduleChoices`, which a compile passes to its back ends (request.py).
Next: vta/schedule/choices.py reads the records; tuned_file.py has them in a file.

Without records all choices are the cost model's, and this module is not used.
"""

from __future__ import annotations

from collections.abc import Mapping

from loadstone.files import JsonObject

__all__ = ["ScheduleChoices"]


class ScheduleChoices:
    """Records by key; `asked` are the keys that were looked up and found."""

    def __init__(self, records: Mapping[str, JsonObject]) -> None:
        self.records = dict(records)
        self.asked: set[str] = set()

    def record(self, key: str) -> JsonObject:
        """The record of a layer; empty for a layer that was not tuned."""
        found = self.records.get(key)
        if found is None:
            return {}
        self.asked.add(key)
        return found

    @property
    def unused(self) -> list[str]:
        """The keys that were never looked up: layers that the network does not have."""
        return [key for key in self.records if key not in self.asked]
