# SPDX-License-Identifier: Apache-2.0
"""`loadstone backend new NAME [-o DIR]`: create a back end of your own.

In:   a name.
Out:  DIR/NAME.py, a back end that works, and DIR/test_NAME.py.
Next: edit two functions; `loadstone conform NAME --uma-backends DIR`;
      docs/bring-your-own-accelerator.md.
"""

from __future__ import annotations

import argparse
import re
from importlib import resources
from pathlib import Path

from loadstone.commands.answers import add_json_option, answer
from loadstone.errors import TargetError
from loadstone.files import write_whole

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone backend new npu -o mine            mine/npu.py and mine/test_npu.py
  python -m pytest mine                        passes at once
  loadstone backend new npu -o mine --isa      a device with instructions of its own, simulator and board included
  loadstone compile net.tflite --uma-backends mine --target npu,vtaq-1x16x16
"""
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the verb, NAME and -o."""
    parser.epilog = _EPILOG
    parser.add_argument("verb", choices=["new"], help="what to do")
    parser.add_argument(
        "name", metavar="NAME", help="what targets will call it: letters, digits, - and _"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        default=".",
        help="the folder for the two files (default: the current one)",
    )
    parser.add_argument(
        "--isa",
        action="store_true",
        help="a device with instructions of its own, with everything up to its board",
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the template under the new name; never over a file that is there."""
    from loadstone.backend.plugins import RESERVED

    if not _NAME.fullmatch(args.name) or args.name in RESERVED:
        raise TargetError(
            f"backend new: {args.name!r} is no name: lower-case letters, digits, - and _, "
            f"and not {', '.join(RESERVED)}"
        )
    stem, folder = args.name.replace("-", "_"), Path(args.output)
    title = "".join(part.capitalize() for part in stem.split("_"))
    files = {
        folder / f"{stem}.py": "isa_backend.py" if args.isa else "backend.py",
        folder / f"test_{stem}.py": "test_isa_backend.py" if args.isa else "test_backend.py",
    }
    for path in files:
        if path.exists():
            raise TargetError(
                f"backend new: {path} is there already: choose another name or folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, source in files.items():
        text = (
            resources.files("loadstone.backend.template")
            .joinpath(source)
            .read_text(encoding="utf-8")
        )
        for old, new in (("my-npu", args.name), ("my_npu", stem)):
            text = text.replace(old, new)
        text = text.replace("MyIsaNpu", title).replace("MyNpu", title)
        write_whole(path, text)
    edit = "what is marked EDIT" if args.isa else "`accepts` and `execute`"
    then = f"python -m pytest {folder}; then edit {edit} in {next(iter(files))}"
    paths = list(map(str, files))
    answer(args, {"files": paths, "next": then}, [*paths, f"next: {then}"])
