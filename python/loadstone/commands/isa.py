# SPDX-License-Identifier: Apache-2.0
"""`loadstone isa [--check]`: the files generated from the instruction set.

In:   the spec; a checkout of the repository.
Out:  driver/include/lds_isa.h and docs/isa.md, or with --check exit status 1 when one is not
      current.
Next: `make check` runs it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone.vta.isa import generate

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone isa              after a change to vta/isa/spec.py or registers.py: writes lds_isa.h and docs/isa.md
  loadstone isa --check      exit status 1 when one of them differs from the spec
  loadstone isa --print docs/isa.md      the text of one file, without a checkout
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds --check, --root and --print."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit status 1 when a file is not current",
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), help="the repository (default: the current folder)"
    )
    parser.add_argument(
        "--print",
        dest="shown",
        choices=sorted(generate.OUTPUTS),
        help="print one file instead of writing any",
    )


def run(args: argparse.Namespace) -> int:
    """Writes, checks or prints."""
    if args.shown:
        print(generate.OUTPUTS[args.shown](), end="")
        return 0
    if not (args.root / "driver" / "include").is_dir():
        raise LoadstoneError(
            f"{args.root.resolve()} is no checkout of loadstone (no driver/include): go "
            "there, or give --root"
        )
    if args.check:
        stale = generate.stale(args.root)
        for path in stale:
            print(f"{path} differs from the spec: run `loadstone isa`")
        return 1 if stale else 0
    for path in generate.write(args.root):
        print(f"{path} written")
    return 0
