# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.matrix [NETWORK ...] [--way WAY ...]`: the table of networks by ways.

In:   names; none: all of them.
Out:  a line for each cell, how far its results are from the quantized model's, and whether the
      golden table says otherwise; with --write the golden table.
Next: a person reads it, and mends the cell that is worse than its neighbours.
"""

from __future__ import annotations

import argparse
import sys

from tests.matrix.cells import NETWORKS, cell
from tests.matrix.table import GOLDEN, line, lines
from tests.matrix.ways import WAYS


def main() -> int:
    """Prints as it goes; 1 where a cell is not the golden one."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--host", action="store_true", help="also what stays on the host")
    parser.add_argument("--write", action="store_true", help="write tests/golden/matrix.txt anew")
    args = parser.parse_args()
    golden, wrong = lines(), 0
    for name in args.networks or NETWORKS:
        for way in args.way or WAYS:
            found = cell(name, way)
            text = line(found)
            other = golden.get((name, way)) != text
            wrong += other
            golden[name, way] = text
            off = "" if found.refused else f"; {found.different} of {found.elements} differ"
            at_most = "" if not found.different else f", by {found.relative:.1e} of the largest"
            print(f"{text}{off}{at_most}{' (golden: another)' if other else ''}", flush=True)
            if args.host:
                print("".join(f"    {entry}\n" for entry in found.on_host), end="", flush=True)
            if args.write:
                texts = [golden[n, w] for n in NETWORKS for w in WAYS if (n, w) in golden]
                GOLDEN.write_text("\n".join(texts) + "\n")
    return int(wrong > 0 and not args.write)


if __name__ == "__main__":
    sys.exit(main())
