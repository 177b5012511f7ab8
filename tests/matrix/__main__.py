# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.matrix [NETWORK ...] [--way WAY ...]`: the table of networks by ways.

In:   names; none: all of them.
Out:  a line for each cell, how far its results are from the quantized model's, and whether the
      golden table says otherwise; with --write the golden table. With --log FILE the lines also go
      there, and cells that it has are not tried again: what was stopped goes on.
Next: a person reads it, and mends the cell that is worse than its neighbours.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tests.matrix.cells import NETWORKS, Cell, cell
from tests.matrix.page import PAGE, page
from tests.matrix.table import GOLDEN, line, lines
from tests.matrix.ways import WAYS

#: What a log's line has behind the golden one's.
_OFF = r"; \d+ of \d+ differ.*"


def main() -> int:
    """Prints as it goes; 1 where a cell is not the golden one."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--host", action="store_true", help="also what stays on the host")
    parser.add_argument("--log", type=Path, metavar="FILE", help="go on from this file's cells")
    parser.add_argument("--write", action="store_true", help="write tests/golden/matrix.txt anew")
    parser.add_argument("--page", action="store_true", help="write docs/front-ends.md, run nothing")
    args = parser.parse_args()
    if args.page:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    golden, wrong = lines(), 0
    tried = lines(args.log) if args.log else {}
    for name in args.networks or NETWORKS:
        for way in args.way or WAYS:
            if (name, way) in tried:
                golden[name, way] = re.sub(_OFF, "", tried[name, way])
                continue
            found = cell(name, way)
            text = line(found)
            other = golden.get((name, way)) != text
            wrong += other
            golden[name, way] = text
            said = f"{text}{_off(found)}"
            print(f"{said}{' (golden: another)' if other else ''}", flush=True)
            if args.log:
                with args.log.open("a") as log:
                    log.write(f"{said}\n")
            if args.host:
                print("".join(f"    {entry}\n" for entry in found.on_host), end="", flush=True)
    if args.write:
        texts = [golden[n, w] for n in NETWORKS for w in WAYS if (n, w) in golden]
        GOLDEN.write_text("\n".join(texts) + "\n")
    return int(wrong > 0 and not args.write)


def _off(found: Cell) -> str:
    """How far the results are from the quantized model's."""
    if found.refused:
        return ""
    at_most = "" if not found.different else f", by {found.relative:.1e} of the largest"
    return f"; {found.different} of {found.elements} differ{at_most}"


if __name__ == "__main__":
    sys.exit(main())
