# SPDX-License-Identifier: Apache-2.0
"""How a command that serves ends: Ctrl-C and SIGTERM, also while C waits.

In:   signals.
Out:  a descriptor that becomes readable, and the exit status.
Next: simd.py, serve.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence

__all__ = ["exit_status", "stop_signals"]

_EXIT_TERMINATED = 143  # 128 + SIGTERM


@contextlib.contextmanager
def stop_signals() -> Iterator[tuple[int, list[int]]]:
    """A descriptor that becomes readable when the process is to end, and the signals that requested
    it. (No exception: it could be raised while C calls Python, and be lost there.) A signal that is
    ignored, like SIGINT in a background job of a shell, stays ignored."""
    stop, writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    caught: list[int] = []
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    ]
    before = [signal.signal(number, lambda n, _frame: caught.append(n)) for number in numbers]
    woken = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)  # in C, whoever runs
    try:
        yield stop, caught
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(stop)
        os.close(writes)


def exit_status(caught: Sequence[int]) -> int:
    """Of a process that these signals ended. Raises KeyboardInterrupt for Ctrl-C."""
    if signal.SIGINT in caught:
        raise KeyboardInterrupt
    return _EXIT_TERMINATED if caught else 0
