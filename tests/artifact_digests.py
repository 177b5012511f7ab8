# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.artifact_digests MODEL ... [--against FILE]`: digests of compiled networks, for
changes of the compiler that must not change what it makes for devices.

In:   networks, names of devices; --against: lines that an earlier run printed.
Out:  for each network and device a line of name, device, size in bytes and first 16 digits of the
      SHA-256 of what the device is given: its instructions, and the memory that it may read. What
      the host does is left out. With --against exit status 1 where a line differs.
Next: tests/test_artifact_digests.py holds small networks against tests/golden/digests.txt; a
      person prints the lines of a folder of models before a change, and compares them behind it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError

__all__ = ["DEVICES", "lines", "main"]

#: One with RQ and one twice as wide, one with powers of two alone, two of VTA as it is.
DEVICES = ("vtaq-1x16x16", "vtaq-1x32x32", "vtab-1x16x16", "vta-pynq", "vta-de10nano")


def lines(name: str, model: Path, devices: Sequence[str] = DEVICES) -> Iterator[str]:
    """A line for each device; where the network is refused, with the class of the error."""
    for device in devices:
        try:
            artifact = compile(model, device, as_float=True).artifact
        except LoadstoneError as error:
            yield f"{name} {device} {type(error).__name__}"
        else:
            parts = [program.instructions for program in artifact.programs]
            parts += [region.data for region in artifact.regions if region.device_reads]
            data = b"".join(parts)
            yield f"{name} {device} {len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


def main(arguments: list[str] | None = None) -> int:
    """Prints the lines; 1 where one differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.artifact_digests", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--device", action="append", dest="devices")
    parser.add_argument("--against", type=Path, help="lines of an earlier run")
    args = parser.parse_args(arguments)
    known = args.against and set(args.against.read_text(encoding="utf-8").splitlines())
    status = 0
    for model in args.models:
        for line in lines(model.name, model, args.devices or DEVICES):
            same = not known or line in known
            print(line if same else f"{line} DIFFERS", flush=True)
            status |= not same
    return status


if __name__ == "__main__":
    sys.exit(main())
