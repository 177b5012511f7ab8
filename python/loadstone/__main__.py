# SPDX-License-Identifier: Apache-2.0
"""`python -m loadstone`, and the `loadstone` command.

In:   sys.argv.
Out:  the exit status.
Next: cli.py, imported inside the block that knows what Ctrl-C means.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["start"]

_EXIT_INTERRUPTED = 130  # 128 + SIGINT


def start(words: Sequence[str] | None = None) -> None:
    """Runs one command and exits. Ctrl-C ends it without a traceback, from the start."""
    try:
        from loadstone.cli import main

        sys.exit(main(words))
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)


if __name__ == "__main__":
    start()
