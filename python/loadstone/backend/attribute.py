# SPDX-License-Identifier: Apache-2.0
"""One attribute of an accelerator in a target, with its type and its limits.

In:   its text in a target: the 8 of `npu -lanes=8`.
Out:  the typed value, or TargetError.
Next: interface.py: Backend.target_attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.errors import TargetError

__all__ = ["Attribute"]


@dataclass(frozen=True)
class Attribute:
    """One attribute of an accelerator. default: also says the type: int, str or bool. allowed: a
    range, or some values; None: all.

    >>> lanes = Attribute("lanes", 16, "multipliers side by side", allowed=range(1, 65))
    >>> lanes.value("0x20", "npu"), lanes.limits
    (32, '[1, 64]')
    >>> Attribute("mode", "fast", "how it rounds", allowed=("fast", "exact")).value("slow", "npu")
    Traceback (most recent call last):
    loadstone.errors.TargetError: target: npu -mode=slow is not one of fast, exact
    """

    name: str
    default: int | str | bool
    doc: str
    allowed: Sequence[int | str] | None = None

    def value(self, text: str, accelerator: str) -> int | str | bool:
        """The typed value. Raises TargetError naming what is allowed."""
        value = self._typed(text, accelerator)
        if self.allowed is not None and value not in self.allowed:
            limits = (
                f"in {self.limits}" if isinstance(self.allowed, range) else f"one of {self.limits}"
            )
            raise TargetError(f"target: {accelerator} -{self.name}={text} is not {limits}")
        return value

    @property
    def limits(self) -> str:
        """The permitted values, for messages and help; empty where all are."""
        if isinstance(self.allowed, range):
            return f"[{self.allowed[0]}, {self.allowed[-1]}]"
        return ", ".join(map(str, self.allowed or ()))

    def _typed(self, text: str, accelerator: str) -> int | str | bool:
        if isinstance(self.default, bool):
            if text not in ("true", "false"):
                raise TargetError(
                    f"target: {accelerator} -{self.name}={text} is neither true nor false"
                )
            return text == "true"
        if isinstance(self.default, int):
            try:
                return int(text, 0)
            except ValueError:
                raise TargetError(
                    f"target: {accelerator} -{self.name}={text} is not an integer"
                ) from None
        return text
