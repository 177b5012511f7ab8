# SPDX-License-Identifier: Apache-2.0
"""Options of a decoder: `--rows`, `--rotate` and `--weights4`, how `loadstone compile` makes it of a .gguf file;
`--tokenizer`, `--device` and `--json`, how the commands for texts run it.

In:   the parser.
Out:  the options, in groups.
Next: commands/compile.py hands the first to the compiler, and to frontend/gguf.py;
      commands/generate.py and commands/perplexity.py the others to language/.
"""

from __future__ import annotations

import argparse

from loadstone.commands.answers import add_json_option

__all__ = ["add_decoder_options", "add_decoder_run_options"]


def add_decoder_options(parser: argparse.ArgumentParser) -> None:
    """None where nobody says one."""
    group = parser.add_argument_group("a language model (.gguf)")
    group.add_argument(
        "--rows",
        type=int,
        metavar="R",
        help="the tokens that a run of its entry `chunk` takes, beside the entry `next`, which takes one "
        "(default: 16, or as many as the window has); 1: one entry alone",
    )
    group.add_argument(
        "--rotate",
        type=int,
        choices=(64, 0),
        help="rotate rows and weights in blocks of 64 (default), which spreads outliers; 0: do not",
    )
    group.add_argument(
        "--weights4",
        choices=("all", "most"),
        default="",
        help="linears that keep the file's 4 bits a weight, which a device with weights4 loads as they "
        "are: all but the head, or most, where the last of each layer is int8, too; these are not rotated; of an .onnx file, with --data "
        "and --scheme dynamic: all that have 4 bits",
    )


def add_decoder_run_options(parser: argparse.ArgumentParser, what: argparse._ArgumentGroup) -> None:
    """--tokenizer goes to the group `what`."""
    where = parser.add_argument_group("where it runs")
    what.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="words of the model: a .gguf file, a tokenizer.json, a .words.json; default: beside the artifact",
    )
    where.add_argument(
        "--device", metavar="D", default="sim", help="what runs it (default: %(default)s)"
    )
    add_json_option(parser.add_argument_group("results"))
