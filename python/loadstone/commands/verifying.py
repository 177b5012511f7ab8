# SPDX-License-Identifier: Apache-2.0
"""--verify: every pass is looked at by its verifier.

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
        help="look at what every pass makes by other means than its own (docs/passes.md says by "
        "which), and stop where it does not hold; takes up to twice as long",
    )


def verify_as_asked(args: argparse.Namespace) -> None:
    """Verifiers run from here on, where the option was given."""
    if args.verify:
        os.environ[VERIFY] = "1"


def verified_text(runs: Iterable[PassRun]) -> str:
    """Passes whose verifiers ran, each with how often.

    >>> verified_text([PassRun("encode", "vta_0", True), PassRun("import", "", False)])
    'encode 1'
    """
    counts = Counter(run.name for run in runs if run.verified)
    return ", ".join(f"{name} {count}" for name, count in counts.items())
