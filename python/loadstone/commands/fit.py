# SPDX-License-Identifier: Apache-2.0
"""Whether a compiled model fits: --max-flash, --max-ram and --switch-within of `loadstone compile`,
and the line of its summary.

In:   the memory that a model needs (runtime/footprint.py), limits from the command line.
Out:  figures of the report; ConfigError where a limit is exceeded, before a file is written.
Next: commands/compile.py.
"""

from __future__ import annotations

import argparse
import re

from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.runtime.footprint import Footprint, footprint

__all__ = ["add_limits", "check_fit", "fit_lines", "fit_report"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def add_limits(group: argparse._ArgumentGroup) -> None:
    """Adds the options."""
    for name, what in (("flash", "model and runtime"), ("ram", "session and DMA memory")):
        group.add_argument(
            f"--max-{name}",
            metavar="BYTES",
            type=_size,
            help=f"refuse a model that needs more in C: {what}; 64K and 2M are units of 1024",
        )
    group.add_argument(
        "--switch-within",
        metavar="CYCLES",
        type=int,
        help="cut programs so that the device can turn to another network within so many cycles "
        "(docs/schedule.md)",
    )


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KM]?)", text, re.IGNORECASE)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, as 65536 or 64K")
    return int(found[1]) * _UNITS[found[2].upper()]


def check_fit(args: argparse.Namespace, artifact: Artifact, in_c: bool) -> Footprint | None:
    """The memory that the model needs; None where C alone does not run it. Raises ConfigError."""
    limited = args.max_flash is not None or args.max_ram is not None
    if not in_c:
        if limited:
            option = "--max-flash" if args.max_flash is not None else "--max-ram"
            raise ConfigError(
                f"{args.model}: {option} is of a model that runs in C, and this one has steps that "
                "need Python: --require-c names them"
            )
        return None
    needs = footprint(artifact)
    if args.max_flash is not None and needs.flash_bytes > args.max_flash:
        raise ConfigError(
            f"{args.model}: --max-flash {args.max_flash}: it needs {needs.flash_bytes} bytes, "
            f"{needs.model_bytes} of model and {needs.runtime_bytes} of runtime: take a smaller model, or "
            "more flash"
        )
    if args.max_ram is not None and needs.ram_bytes > args.max_ram:
        raise ConfigError(
            f"{args.model}: --max-ram {args.max_ram}: it needs {needs.ram_bytes} bytes, "
            f"{needs.session_bytes} of session and {needs.pool_bytes} of DMA memory, of which "
            f"{needs.arena_bytes} are activations: take a smaller input or model, or more RAM"
        )
    return needs


def fit_report(needs: Footprint | None) -> JsonObject:
    """For --json."""
    if needs is None:
        return {}
    return {
        "in_c": {
            "flash_bytes": needs.flash_bytes,
            "model_bytes": needs.model_bytes,
            "runtime_bytes": needs.runtime_bytes,
            "ram_bytes": needs.ram_bytes,
            "session_bytes": needs.session_bytes,
            "dma_pool_bytes": needs.pool_bytes,
            "arena_bytes": needs.arena_bytes,
            "steps_in_c": needs.c_steps,
        }
    }


def fit_lines(report: JsonObject) -> list[str]:
    """The same as lines of text."""
    found = report.get("in_c")
    if found is None:
        return []
    more = f", and the code of {found['steps_in_c']} step(s) in C" if found["steps_in_c"] else ""
    return [
        f"  flash in C     {found['flash_bytes']} bytes: {found['model_bytes']} of model, at most "
        f"{found['runtime_bytes']} of runtime{more}",
        f"  RAM in C       {found['ram_bytes']} bytes: {found['session_bytes']} of session, "
        f"{found['dma_pool_bytes']} of DMA memory",
    ]
