# SPDX-License-Identifier: Apache-2.0
"""`loadstone tune MODEL --target DEVICE -o tuned.json`: schedules that are faster than the compiler's
own.

In:   a model file of integers, a device, the length of the search, the workers.
Out:  a file for `loadstone compile --tuned`; a row for each layer: cycles before and after, and the
      lower bound for every order of its steps.
Next: search/tune.py searches.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from loadstone.analysis.names import short_names
from loadstone.backend.tuned_file import Tuned, write_tuned
from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import add_plugin_options as extend
from loadstone.commands.plugin_options import target_of
from loadstone.commands.verifying import add_verify, verify_as_asked
from loadstone.errors import ConfigError
from loadstone.files import check_places

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone tune net.tflite --target vtaq-1x16x16 -o tuned.json
  loadstone compile net.tflite --target vtaq-1x16x16 --tuned tuned.json -o net.lds
                                                                 the faster program; the same integers
  loadstone tune net.tflite -t vtaq-1x16x16 --trials 128         a longer search: that many choices for each layer
  loadstone tune net.tflite -t vtaq-1x16x16 --seconds 120        or until the time is up
  loadstone tune net.tflite -t mine.json --workers 8             on 8 processes of this machine; the result is the same
  loadstone tune net.tflite -t mine.json --workers tcp://head:8786      on a Dask cluster
  loadstone tune net.tflite -t systolic --uma-backends mine/     a plug-in, over what its back end offers (`space`)

What is chosen of a VTA: the tile of each loop and which loops are outside, how a first layer's taps and narrow tensors' columns fill channels,
the form of the requantization where the GEMM core does it, how far ahead weights are loaded, where tiles go in the scratchpads.
Of a plug-in: the names and values that `Backend.space(operator)` lists; its `lower` asks `self.choice(operator)` for them.
Exact cycles of the simulator decide: each layer alone first, then the whole network, and only what makes the whole faster is kept.
The same --seed and --trials give the same file, on any number of workers; --seconds may end a search earlier on a slower machine.
Each trial is kept in an SQLite file (--store) as soon as it is known: a search that was stopped continues from there, and networks with equal
layers share trials.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    add_verify(parser)
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="an int8 or uint8 model: a .tflite, .onnx or .pt2 file; a .pt2 file that could run code is refused",
    )
    parser.add_argument(
        "--target",
        "-t",
        required=True,
        action="append",
        metavar="TARGET",
        help="as for `loadstone compile`: a device's name, its JSON file, a composite target",
    )
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="the file of choices to write; default: the model's name with .tuned.json",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=32,
        metavar="N",
        help="the number of schedules to try for each layer (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="end the search after S seconds with the best so far",
    )
    parser.add_argument(
        "--workers",
        default="1",
        metavar="N|tcp://HOST:PORT",
        help="who simulates layers: so many processes, or the workers of a Dask scheduler "
        "(default: this process)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the seed of the search (default: %(default)s)",
    )
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="an SQLite file of trials, shared by all networks (default: loadstone/tune.sqlite in "
        "$XDG_CACHE_HOME or ~/.cache)",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> None:
    """Searches, writes the file, and prints the rows."""
    verify_as_asked(args)
    from loadstone.search.tune import TuneOptions, tune
    from loadstone.search.tune_network import SimulatedNetwork
    from loadstone.search.tune_study import needs_optuna
    from loadstone.search.workers import workers_of

    needs_optuna()
    output = args.output or f"{Path(args.model).stem}.tuned.json"
    check_places([output], ConfigError)
    options = TuneOptions(
        args.trials,
        args.seconds,
        workers_of(args.workers),
        args.seed,
        Path(args.store) if args.store else None,
        say=_say,
    )
    tuned = tune(SimulatedNetwork(args.model, target_of(args, args.target), args.plugins), options)
    write_tuned(output, tuned)
    print(json_text(asdict(tuned)) if args.json else text(tuned, str(output)))


def _say(line: str) -> None:
    """Prints the progress on a terminal."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr)


def text(tuned: Tuned, output: str) -> str:
    """A line for each layer, then the sums."""
    lines = [
        f"{'layer':<33} {'kind':<14} {'default':>9} {'tuned':>9} {'bound':>9} {'above':>7}  choice"
    ]
    short = short_names([layer.name for layer in tuned.layers])
    for layer in tuned.layers:
        bound, above = "", ""
        if layer.bound_cycles:
            bound = f"{layer.bound_cycles:,}"
            above = f"{100 * (layer.cycles / layer.bound_cycles - 1):.0f} %"
        choice = " ".join(f"{name}={_value(value)}" for name, value in layer.choice.items())
        lines.append(
            f"{short[layer.name]:<33} {layer.kind:<14} {layer.default_cycles:>9,} {layer.cycles:>9,} "
            f"{bound:>9} {above:>7}  {choice}".rstrip()
        )
    gain = 100 * (1 - tuned.cycles / tuned.default_cycles)
    lines += [
        "",
        f"{output}: {tuned.model} on {tuned.device}: {tuned.default_cycles:,} cycles by default, "
        f"{tuned.cycles:,} tuned ({gain:.1f} % fewer)",
    ]
    return "\n".join(lines)


def _value(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
