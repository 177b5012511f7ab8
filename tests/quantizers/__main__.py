# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.quantizers ort|pt2e [--networks N] [--first N] [--log FILE]`: random networks
by number.

In:   how many; a log, which it goes on from.
Out:  a line for each network that is not equal, then counts; exit status 1 where a result was
      different, or something ended in a traceback or hung.
Next: docs/validation.md has the figures.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.models import BAD
from tests.quantizers.campaign import TOOLS, campaign, counts, done


def main() -> int:
    """Prints as it goes."""
    parser = argparse.ArgumentParser(prog="python -m tests.quantizers", description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first network's number")
    parser.add_argument("--log", type=Path, metavar="FILE", help="go on from this file's networks")
    args = parser.parse_args()
    had = done(args.log, args.tool) if args.log else set()
    numbers = [n for n in range(args.first, args.first + args.networks) if n not in had]
    lines = []
    for line in campaign(args.tool, numbers):
        lines.append(line)
        if args.log:
            with args.log.open("a") as log:
                log.write(f"{line}\n")
        if not line.endswith(" equal"):
            print(line, flush=True)
    every = args.log.read_text().splitlines() if args.log else lines
    found = counts(every)
    print(", ".join(f"{count} {label}" for label, count in sorted(found.items())))
    return int(any(found[f"{args.tool} {bad}"] for bad in BAD))


if __name__ == "__main__":
    sys.exit(main())
