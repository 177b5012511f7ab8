# SPDX-License-Identifier: Apache-2.0
"""`make test-avx512`: random programs on the simulator's AVX-512 path, on an emulated processor.

In:   --programs, --only, --first.
Out:  a line for each five hundred programs; exit status 1 and the first difference where bytes or
      cycles differ, 0 with a reason where Bochs is missing.
Next: docs/performance.md has the figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import pytest

from tests.bochs.build import replayer
from tests.bochs.campaign import campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bochs", description=__doc__)
    parser.add_argument("--programs", type=int, default=2000, help="of each kind of element")
    parser.add_argument("--only", choices=("bfloat16", "int8"), help="elements; both without")
    parser.add_argument("--first", type=int, default=0, help="the first program's seed")
    args = parser.parse_args()
    kinds = (args.only,) if args.only else ("bfloat16", "int8")
    with tempfile.TemporaryDirectory(prefix="lds-avx512-") as name:
        folder = Path(name)
        try:
            program = replayer(folder)
            for kind in kinds:
                todo = campaign(
                    program, folder, args.programs, is_float=kind == "bfloat16", first=args.first
                )
                for done in todo:
                    print(f"{kind}: {done} of {args.programs} programs equal", flush=True)
        except pytest.skip.Exception as reason:
            print(f"skipped: {reason}")
        except AssertionError as difference:
            print(difference)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
