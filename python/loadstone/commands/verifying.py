# SPDX-License-Identifier: Apache-2.0
"""--verify: its verifier checks the result of every pass.

In:   the options of a command that compiles.
Out:  LOADSTONE_VERIFY=1 in the environment, so that worker processes verify, too; the names of the
      verifiers that ran.
Next: passes/log.py runs verifiers; commands/compile.py prints who did.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable

from loadstone.passes.log import VERIFY, PassRun

__all__ = ["add_verify", "verified_text", "verify_as_asked"]


def add_verify(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Adds the option."""
    parser.add_argument(
        "--verify",
        action="store_true",
        help="check the result of every pass by independent means (docs/passes.md names them), and "
        "stop where it is wrong; takes up to twice as long",
    )


def verify_as_asked(args: argparse.Namespace) -> None:
    """Makes verifiers run from now on, if the option was given."""
    if args.verify:
        os.environ[VERIFY] = "1"


def verified_text(runs: Iterable[PassRun]) -> str:
    """The passes whose verifiers ran, and how often each did.

    >>> verified_text([PassRun("encode", "vta_0", True), PassRun("import", "", False)])
    'encode 1'
    """
    counts = Counter(run.name for run in runs if run.verified)
    return ", ".join(f"{name} {count}" for name, count in counts.items())
