# SPDX-License-Identifier: Apache-2.0
"""`python -m loadstone`, and the `loadstone` command.

In:   sys.argv.
Out:  the exit status.
Next: cli.py, imported inside the block that knows what Ctrl-C means.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

__all__ = ["start"]

_EXIT_INTERRUPTED = 130  # 128 + SIGINT
#: New objects after which Python looks for cycles among them, and so many times as rarely among
#: older ones. A compiler makes millions of objects and few cycles: at 700, Python's own figure, a
#: tenth of a command is spent on looking, at 50,000 still a twentieth of MobileNetV2's compile.
_NEW_OBJECTS, _YOUNG, _OLD = 1_000_000, 20, 100


def start(words: Sequence[str] | None = None) -> None:
    """Runs one command and exits. Ctrl-C ends it without a traceback, from the start."""
    gc.set_threshold(_NEW_OBJECTS, _YOUNG, _OLD)
    try:
        from loadstone.cli import main

        sys.exit(main(words))
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    finally:
        gc.freeze()  # the process ends: no cycle needs to be looked for among all that it made


if __name__ == "__main__":
    start()
