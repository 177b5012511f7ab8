# SPDX-License-Identifier: Apache-2.0
"""`python -m loadstone`, and the `loadstone` command.

In:   sys.argv.
Out:  the exit status.
Next: cli.py, imported inside the block that knows what Ctrl-C means.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

__all__ = ["start"]

_EXIT_MISTAKE = 2
_EXIT_INTERRUPTED = 130  # 128 + SIGINT
_AGAIN_SECONDS = 0.01
_NO_MEMORY = (
    b"loadstone: no memory is left: raise what this process may have (ulimit -v), or give it less "
    b"to do\n"
)
#: New objects after which Python looks for cycles among them, and so many times as rarely among
#: older ones. A compiler makes millions of objects and few cycles: at 700, Python's own figure, a
#: tenth of a command is spent on looking, at 50,000 still a twentieth of MobileNetV2's compile.
_NEW_OBJECTS, _YOUNG, _OLD = 1_000_000, 20, 100
#: TVM's switch for what its code generators for GPUs register in Python, half of the time that its
#: import takes. No command compiles for one; a plug-in that does is run with 1.
_GPUS = "TVM_DEVICE_BACKEND_AUTOLOAD"


def start(words: Sequence[str] | None = None) -> None:
    """Runs one command and exits. Ctrl-C ends it without a traceback, from the start to the end."""
    try:
        _INTERRUPTS.begin()
        gc.set_threshold(_NEW_OBJECTS, _YOUNG, _OLD)
        os.environ.setdefault(_GPUS, "0")
        from loadstone.cli import main

        status = main(words, lambda: _INTERRUPTS.seen)
    except KeyboardInterrupt:
        status = _EXIT_INTERRUPTED
    except MemoryError:
        os.write(2, _NO_MEMORY)  # nothing is made: there may be no room for it
        status = _EXIT_MISTAKE
    except Exception:
        if not _INTERRUPTS.seen:  # an import in C that was interrupted may say so otherwise
            raise
        status = _EXIT_INTERRUPTED
    finally:
        gc.freeze()  # the process ends: no cycle needs to be looked for among all that it made
    _INTERRUPTS.end_at_once()
    sys.exit(status)


class _Interrupts:
    """Ctrl-C, unless who started the process has it ignored. seen: whether there was one."""

    def __init__(self) -> None:
        self.seen = self._here = False

    def begin(self) -> None:
        """Ctrl-C may come in the middle of this, too."""
        self._here = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._here:
            signal.signal(signal.SIGINT, self._interrupt)
            sys.unraisablehook = self._again

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self.seen = True
        while frame:
            if frame.f_code is _Interrupts._again.__code__:  # on a busy machine it is still there
                self._set_alarm()
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    def _again(self, ignored: sys.UnraisableHookArgs) -> None:
        """A callback in which Python ignores errors has taken the interrupt: it comes again, when
        the callback is over. An error in here would be ignored, too."""
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            self._set_alarm()
        else:
            sys.__unraisablehook__(ignored)

    def _set_alarm(self) -> None:
        signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    def end_at_once(self) -> None:
        """From now on: what is left is Python's own end, which a traceback would only disturb."""
        if self._here:
            signal.signal(signal.SIGINT, lambda *_: os._exit(_EXIT_INTERRUPTED))
            signal.setitimer(signal.ITIMER_REAL, 0)  # an interrupt that would come again


_INTERRUPTS = _Interrupts()

if __name__ == "__main__":
    start()
