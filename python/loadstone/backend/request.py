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


@dataclass(frozen=True)
class CompileRequest:
    """rounding: one of ROUNDINGS: near, where that takes fewer cycles. schedules: choices that
    somebody found to be better than the cost model's; None: there are none. Raises ConfigError for
    a rounding of another name.

    >>> CompileRequest("near").is_near, CompileRequest().is_near
    (True, False)
    >>> CompileRequest("up")
    Traceback (most recent call last):
    loadstone.errors.ConfigError: compile: rounding 'up' is not one of exact, near
    """

    rounding: str = ROUNDINGS[0]
    schedules: ScheduleChoices | None = None

    def __post_init__(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise ConfigError(
                f"compile: rounding {self.rounding!r} is not one of {', '.join(ROUNDINGS)}"
            )

    @property
    def is_near(self) -> bool:
        """Whether an output may be one level off, or as far as a plug-in states."""
        return self.rounding == "near"
