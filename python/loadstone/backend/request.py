# SPDX-License-Identifier: Apache-2.0
"""The options of one compile for its back ends, besides the network.

In:   arguments of compile(), the file of `loadstone tune`.
Out:  `CompileRequest`.
Next: Target.asked gives it to every back end, which reads it in `self.request`; VTA's makes
      requests for its regions and layers of it (vta/region/request.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.errors import ConfigError

__all__ = ["ROUNDINGS", "CompileRequest"]

#: The framework's integers; at most one level off, with a proven bound, or as far as a plug-in's
#: back end states (backend/rounding.py).
ROUNDINGS = ("exact", "near")
#: Nobody can have less: a program that does nothing takes some hundred cycles to fetch.
LEAST_SWITCH_CYCLES = 1000


@dataclass(frozen=True)
class CompileRequest:
    """rounding: one of ROUNDINGS: near, where that takes fewer cycles. schedules: choices that
    somebody found to be better than the cost model's; None: there are none. switch_cycles: a
    program takes so many at most, so that several networks can share the device; None: a program is
    as long as its segment. Raises ConfigError for a rounding of another name, and for fewer than
    LEAST_SWITCH_CYCLES.

    >>> CompileRequest("near").is_near, CompileRequest().is_near
    (True, False)
    >>> CompileRequest("up")
    Traceback (most recent call last):
    loadstone.errors.ConfigError: compile: rounding 'up' is not one of exact, near
    """

    rounding: str = ROUNDINGS[0]
    schedules: ScheduleChoices | None = None
    switch_cycles: int | None = None

    def __post_init__(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise ConfigError(
                f"compile: rounding {self.rounding!r} is not one of {', '.join(ROUNDINGS)}"
            )
        if self.switch_cycles is not None and self.switch_cycles < LEAST_SWITCH_CYCLES:
            raise ConfigError(
                f"compile: no program is so short that the device could switch within "
                f"{self.switch_cycles} cycles: ask for {LEAST_SWITCH_CYCLES} or more"
            )

    @property
    def is_near(self) -> bool:
        """Whether an output may be one level off, or as far as a plug-in states."""
        return self.rounding == "near"
