# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during a run: the core calls Python a few dozen times a second.

In:   signals; Python's handlers run in the main thread only.
Out:  ASK, the callback for the core; the exception of a handler is raised again after the run.
Next: sim.py.
"""

from __future__ import annotations

from threading import current_thread, main_thread

from loadstone.library.native import CData, ffi

__all__ = ["ASK", "raise_what_was_caught"]

#: What a signal's handler raised while the main thread was in a run: KeyboardInterrupt, as a rule.
_raised: list[BaseException] = []


def _handle_signals(_ctx: CData) -> int:
    """That Python runs here at all lets it run the handlers of signals."""
    return 0


ASK: CData = ffi.callback(
    "int(void *)",
    _handle_signals,
    error=1,
    onerror=lambda _kind, error, _trace: _raised.append(error),
)


def raise_what_was_caught() -> None:
    """After a run: raises what a handler raised inside it; handlers run in no other thread."""
    if _raised and current_thread() is main_thread():
        error = _raised[0]
        _raised.clear()
        raise error
