# SPDX-License-Identifier: Apache-2.0
"""The command `loadstone-mlonmcu`: two words of its own, and MLonMCU's.

In:   the words of a command line.
Out:  an environment (`environment HOME`), a model in it (`model net.tflite samples.npz --home
      HOME`), or what MLonMCU makes of all others (`flow run net -b loadstone -t host_x86 ...`).
Next: environment.py; MLonMCU's own command, with flow.py registered.

MLonMCU fixes the names of its back ends before it loads extensions, so the command is ours: it
registers Loadstone, says where the interface is that a run is built with, and hands the words on.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone_mlonmcu.environment import write_environment, write_model
from loadstone_mlonmcu.flow import register

__all__ = ["main", "start"]


def main(words: Sequence[str]) -> int:
    """The command. Returns its exit status."""
    if words and words[0] in ("environment", "model"):
        parser = argparse.ArgumentParser(prog="loadstone-mlonmcu " + words[0])
        if words[0] == "environment":
            parser.add_argument("home", metavar="HOME", help="the folder to write")
            print(write_environment(parser.parse_args(words[1:]).home))
            return 0
        parser.add_argument("model", help="a .tflite or .onnx file")
        parser.add_argument("samples", help="an .npz with in0, ... and out0, ...")
        parser.add_argument("--home", required=True, help="what MLONMCU_HOME names")
        args = parser.parse_args(words[1:])
        print(write_model(args.model, args.samples, args.home))
        return 0
    register()
    interface = f"mlif.src_dir={Path(__file__).with_name('mlif')}"
    if words and words[0] == "flow" and not any("mlif.src_dir=" in word for word in words):
        words = [*words, "-c", interface]
    return int(importlib.import_module("mlonmcu.cli.main").main(list(words)) or 0)


def start() -> None:
    """`main` with the process's words; a mistake is one line."""
    try:
        sys.exit(main(sys.argv[1:]))
    except (LoadstoneError, OSError) as error:
        sys.exit(f"loadstone: {error}")
