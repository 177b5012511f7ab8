# SPDX-License-Identifier: Apache-2.0
"""`--rows` and `--rotate`: how `loadstone compile` makes a decoder of a .gguf file.

In:   the parser.
Out:  the options, as a group.
Next: commands/compile.py hands them to the compiler, and to frontend/gguf.py.
"""

from __future__ import annotations

import argparse

__all__ = ["add_decoder_options"]


def add_decoder_options(parser: argparse.ArgumentParser) -> None:
    """None where nobody says one."""
    group = parser.add_argument_group("a language model (.gguf)")
    group.add_argument(
        "--rows",
        type=int,
        metavar="R",
        help="the tokens that a run of its entry `chunk` takes, beside the entry `next`, which takes one "
        "(default: 16, or as many as the window has); 1: one entry alone",
    )
    group.add_argument(
        "--rotate",
        type=int,
        choices=(64, 0),
        help="rotate rows and weights in blocks of 64 (default), which spreads outliers; 0: do not",
    )
