# SPDX-License-Identifier: Apache-2.0
"""The counters of a device over a run, and over all runs.

In:   the counters of lds_session_counters.
Out:  sums of them.
Next: session.py fills them in; commands print them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

__all__ = ["Counters", "Totals"]


@dataclass(frozen=True)
class Counters:
    """What the device counted over the last run; 0 for what it does not count. device_ns: of this
    machine's clock, from the start of its programs until they were seen to be done."""

    cycles: int
    load_busy_cycles: int
    compute_busy_cycles: int
    store_busy_cycles: int
    read_bytes: int
    write_bytes: int
    device_ns: int = field(default=0, compare=False)

    def __add__(self, other: Counters) -> Counters:
        """Both together."""
        return Counters(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Totals:
    """All finished runs of a session, or of several together. external_seconds: by accelerator or
    host, what calls of functions took; the time of this machine."""

    runs: int = 0
    counters: Counters = Counters(0, 0, 0, 0, 0, 0)
    external_seconds: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        """Both together."""
        places = {**self.external_seconds, **other.external_seconds}
        seconds = {
            name: self.external_seconds.get(name, 0.0) + other.external_seconds.get(name, 0.0)
            for name in places
        }
        return Totals(self.runs + other.runs, self.counters + other.counters, seconds)
