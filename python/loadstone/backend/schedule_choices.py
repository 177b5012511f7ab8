# SPDX-License-Identifier: Apache-2.0
"""Which schedule each layer gets, where somebody has found a better one than the cost model's.

In:   records by key: what they say, and what a key is made of, is the back end's own.
Out:  `ScheduleChoices`, which a compile hands to its back ends (request.py).
Next: vta/schedule/choices.py reads the records; tuned_file.py has them in a file.

Without any, every choice is the cost model's, and nothing here is asked.
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
        """What was chosen for a layer; empty for one that nobody tuned."""
        found = self.records.get(key)
        if found is None:
            return {}
        self.asked.add(key)
        return found

    @property
    def unused(self) -> list[str]:
        """Keys that nobody asked for: layers that the network does not have."""
        return [key for key in self.records if key not in self.asked]
