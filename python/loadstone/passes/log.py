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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from loadstone.errors import LoadstoneError, VerificationError
from loadstone.passes.table import CompilerPass, pass_named

__all__ = ["VERIFY", "PassLog", "PassRun", "checked", "keeping", "script", "stopped", "verified"]

#: The environment variable that says whether verifiers run: workers inherit it.
VERIFY = "LOADSTONE_VERIFY"
#: The attribute of an error that names the passes until it came.
_STOPPED = "stopped_passes"

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
        with self._stopping(name):
            after = transform(before)
        looked = verify is not None and verified()
        text = (lambda: show(after)) if self.texts else None
        if verify is not None and looked:
            with_verifier = verify
            with self._stopping(name, text):
                checked(name, lambda: with_verifier(before, after), self.subject)
        self.runs.append(PassRun(name, self.subject, looked, text))
        return after

    @contextmanager
    def _stopping(self, name: str, made: Callable[[], str] | None = None) -> Iterator[None]:
        """An error that leaves it tells which passes ran until then, and in which it came. made:
        what a verifier looks at; None: nothing, or nobody wants it."""
        try:
            yield
        except Exception as error:
            said = f"# stopped: {error}\n"
            if not stopped(error):
                text = partial(_behind, said, made)
                setattr(error, _STOPPED, [PassRun(name, self.subject, False, text)])
            setattr(error, _STOPPED, [*self.runs, *stopped(error)])
            raise


def _behind(said: str, made: Callable[[], str] | None) -> str:
    return said if made is None else said + made()


@contextmanager
def keeping(runs: Callable[[], Sequence[PassRun]]) -> Iterator[None]:
    """An error that leaves it tells of these passes, too. runs: those that ran until then."""
    try:
        yield
    except Exception as error:
        known = stopped(error)
        setattr(error, _STOPPED, [*(run for run in runs() if run not in known), *known])
        raise


def stopped(error: BaseException) -> list[PassRun]:
    """The passes that ran until an error came, and, last, the one in which it came; also of an
    error that says another in its own words."""
    known = getattr(error, _STOPPED, None)
    first = error.__cause__ or error.__context__
    return list(known) if known is not None else [] if first is None else stopped(first)


def checked(name: str, verify: Callable[[], object], subject: str = "") -> None:
    """Runs the verifier of a pass. Raises VerificationError with what it found."""
    try:
        verify()
    except LoadstoneError as error:
        raise VerificationError(name, str(error), subject) from error


def script(module: Any) -> str:
    """A module of TVM as text."""
    return str(module.script())
