# SPDX-License-Identifier: Apache-2.0
"""Run passes, by their names in the list and in its order; and remember which ran.

In:   a pass's name, the function that does it, what it takes.
Out:  what it makes; in `PassLog.runs` a PassRun for each. With LOADSTONE_VERIFY=1 in the
      environment (`loadstone compile --verify` sets it), its verifier has looked at it.
Next: dump.py writes the texts of the runs.

A log belongs to one thing that is compiled: the network, a region, an operator. What a stage
returns carries its log, so that the runs of a partition that is tried and given up are forgotten
with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from loadstone.errors import LoadstoneError, VerificationError
from loadstone.passes.table import CompilerPass, pass_named

__all__ = ["VERIFY", "PassLog", "PassRun", "checked", "script", "verified"]

#: The environment variable that says whether verifiers run: workers inherit it.
VERIFY = "LOADSTONE_VERIFY"

_Before = TypeVar("_Before")
_After = TypeVar("_After")


def verified() -> bool:
    """Whether verifiers run that cost more than a little: yes in all tests, and with --verify."""
    return os.environ.get(VERIFY, "0") not in ("", "0")


@dataclass(frozen=True, eq=False)
class PassRun:
    """A pass that ran. subject: on what, by name; empty for the network. verified: whether its
    verifier has looked at it. text: what it made, for people; None where nobody wants it."""

    name: str
    subject: str
    verified: bool
    text: Callable[[], str] | None = None

    @property
    def entry(self) -> CompilerPass:
        """Its line in the list."""
        return pass_named(self.name)


class PassLog:
    """Runs passes on one subject. texts: whether what they make is kept, to be shown."""

    def __init__(self, subject: str = "", *, texts: bool = False, runs: Sequence[PassRun] = ()):
        self.subject = subject
        self.texts = texts
        self.runs = list(runs)

    def continued(self) -> PassLog:
        """A log that goes on from here, and leaves this one as it is."""
        return PassLog(self.subject, texts=self.texts, runs=self.runs)

    def run(
        self,
        name: str,
        transform: Callable[[_Before], _After],
        before: _Before,
        *,
        verify: Callable[[_Before, _After], object] | None = None,
        show: Callable[[_After], str] = str,
    ) -> _After:
        """What the pass makes of `before`. verify: the list's verifier, which takes both. Raises
        VerificationError where it finds what does not hold."""
        entry = pass_named(name)
        assert bool(entry.verifier) == (verify is not None), f"{name}: verifier and list differ"
        last = self.runs[-1].entry if self.runs else entry
        assert last.number <= entry.number, f"{name} runs behind {last.name}: see passes/table.py"
        after = transform(before)
        looked = verify is not None and verified()
        if verify is not None and looked:
            with_verifier = verify
            checked(name, lambda: with_verifier(before, after), self.subject)
        text = (lambda: show(after)) if self.texts else None
        self.runs.append(PassRun(name, self.subject, looked, text))
        return after


def checked(name: str, verify: Callable[[], object], subject: str = "") -> None:
    """Runs the verifier of a pass. Raises VerificationError with what it found."""
    try:
        verify()
    except LoadstoneError as error:
        raise VerificationError(name, str(error), subject) from error


def script(module: Any) -> str:
    """A module of TVM as text."""
    return str(module.script())
