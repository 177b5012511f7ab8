# SPDX-License-Identifier: Apache-2.0
"""`loadstone compare MODEL.lds --inputs IN.npz --against NET.tflite`: the first layer that is wrong.

In:   an artifact, inputs, a device; the reference: the model's file, another artifact, another
      device, or the meaning of the instructions. Or what a firmware has printed.
Out:  the first layer that differs: how many elements, by how much, where; layers that no token
      orders. Exit status 1 when there is one.
Next: docs/debug.md explains how to find the cause.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping

from loadstone.analysis.compare import (
    Expected,
    LayerDifference,
    described,
    differences,
    digest,
    one_run,
    read_digests,
)
from loadstone.analysis.expected import expected_from, is_file_of_model
from loadstone.analysis.names import short_names
from loadstone.analysis.taps import taps
from loadstone.analysis.tokens import LayerRace, races
from loadstone.artifact.format import Artifact
from loadstone.backend.rounded_network import Departure
from loadstone.commands.answers import json_text
from loadstone.commands.entry_option import add_entry, chosen_entry
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.terminal import print_table
from loadstone.errors import ConfigError, ModelError
from loadstone.files import JsonObject, read_whole
from loadstone.numerics import Array
from loadstone.printable import one_line
from loadstone.quantization.accuracy import NOISY_DB
from loadstone.runtime import device as devices
from loadstone.runtime.arrays import read_inputs
from loadstone.runtime.external_steps import trusts

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone compare model.lds --inputs x.npz --against net.tflite       the simulator with the network itself
  loadstone compare model.lds --inputs x.npz --device uio:/dev/uio0 --against sim      a board with the simulator
  loadstone compare model.lds --inputs x.npz --against net.onnx --framework     with what LiteRT or ONNX Runtime itself computes
  loadstone compare model.lds --inputs x.npz --against float.onnx       with the float network: the loss of each layer
  loadstone compare model.lds --inputs x.npz --against reference        with the definition of the instructions
  loadstone compare model.lds --inputs x.npz --against good.lds         with another artifact of the same network
  loadstone compare model.lds --inputs x.npz --against net.onnx --all --json       every layer, for programs
  loadstone compare model.lds --inputs x.npz --against net.onnx --target npu --uma-backends mine    of --rounding near
  loadstone compare model.lds --inputs x.npz --against sim --digests printed.txt   what a firmware has printed (make DEBUG=1)

Each layer is read from memory after a run that stops there, on a board as on the simulator. Tokens are checked in the artifact: a
layer whose results depend on the speed of the device is named even where they happen to be right.
Elements of float32 may differ by a millionth each, as the order of a sum and an exponential allow; how many tensors do so is said.
Against a float model each tensor is compared as real numbers, and each channel of an inner tensor up to a factor (equalization); a layer below --min-db differs.
exit status: 0 all layers are equal; 1 one differs, or lacks a token; 2 a user's mistake
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("what is examined")
    right = parser.add_argument_group("the reference")
    results = parser.add_argument_group("results")
    parser.add_argument("model", metavar="MODEL.lds", help="an artifact")
    what.add_argument("--inputs", metavar="IN.npz", help="arrays in0, in1 ...")
    right.add_argument(
        "--against",
        metavar="WHAT",
        required=True,
        help="the reference: reference (the instructions' definition), sim or another device, the model's file, another artifact",
    )
    what.add_argument(
        "--device", metavar="D", default="sim", help="the device to examine (default: %(default)s)"
    )
    what.add_argument(
        "--sample", metavar="N", type=int, default=0, help="which sample (default: %(default)s)"
    )
    what.add_argument(
        "--digests", metavar="FILE", help="examine what a firmware printed, not a device"
    )
    right.add_argument(
        "--framework",
        action="store_true",
        help="let LiteRT or ONNX Runtime compute --against's model file, not its definition in NumPy",
    )
    right.add_argument(
        "--target",
        metavar="TARGET",
        help="for which it was compiled with --rounding near: its back ends state how they round, "
        "and the device must give those integers of --against's model file",
    )
    right.add_argument(
        "--atol",
        metavar="N",
        type=float,
        default=0.0,
        help="largest difference that passes (default: %(default)g)",
    )
    right.add_argument(
        "--min-db",
        metavar="N",
        type=float,
        default=NOISY_DB,
        help="against a float model: the least signal to noise that passes (default: %(default)g)",
    )
    results.add_argument("--all", action="store_true", help="every layer, not only the first")
    results.add_argument("--json", action="store_true", help="as JSON")
    add_entry(what)
    what.add_argument(
        "--trust",
        action="store_true",
        help="run steps that are programs in the file, with your rights: only for files whose author you "
        "trust; files that you compiled on this machine, or without such steps, do not need it",
    )


def extend(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False, installed=False)


def run(args: argparse.Namespace) -> int:
    """1 when a layer differs, else 0."""
    if not args.atol >= 0:  # by nan nothing would ever differ
        raise ModelError(f"--atol {args.atol:g} is no difference: it is not 0 or more")
    if not math.isfinite(args.min_db):
        raise ModelError(f"--min-db {args.min_db:g} is no ratio: it is not finite")
    artifact = chosen_entry(args, Artifact.load(args.model))
    args.trust = trusts(artifact, args.trust)
    given = read_inputs(args.inputs, artifact)
    inputs = one_run(artifact, given, args.sample)
    expected, departures = _expected(args, artifact, inputs)
    found: list[LayerDifference] = []
    for entry in _compared(args, artifact, inputs, expected):
        found.append(entry)
        if _is_wrong(entry, args) and not args.all:
            break
    if not found:
        raise ModelError(f"{args.against} knows no layer of {args.model}: not the same network")
    wrong = [entry for entry in found if _is_wrong(entry, args)]
    unordered = races(artifact) if args.all or not wrong else []
    _say(args, found, unordered, departures)
    beyond = any(one.largest > one.stated for one in departures.values())
    return 1 if wrong or unordered or beyond else 0


def _say(
    args: argparse.Namespace,
    found: list[LayerDifference],
    unordered: list[LayerRace],
    departures: Mapping[str, Departure],
) -> None:
    if args.json:
        layers, pairs = [vars(e) for e in found], [vars(e) for e in unordered]
        said: JsonObject = {"compared": len(found), "layers": layers, "races": pairs}
        if departures:
            said["departures"] = {name: vars(one) for name, one in departures.items()}
        print(json_text(said))
    else:
        if args.all:
            plain = "\n".join(
                f"{name:<40.40} {elements:>9} elements  {how}"
                for name, elements, how in _rows(found)
            )
            print_table(("layer", ">elements", ""), _rows(found), plain)
        print(_text(found, args))
        for text in _departed(departures, args.all):
            print(text)
        if unordered:
            print(_unordered(unordered))


def _is_wrong(entry: LayerDifference, args: argparse.Namespace) -> bool:
    if entry.from_float:
        lost = entry.decibels is None or entry.decibels < args.min_db
        return bool(lost and entry.largest > args.atol)
    if entry.rounding:
        return False
    return entry.different > 0 and (not entry.first or entry.largest > args.atol)


def _compared(
    args: argparse.Namespace, artifact: Artifact, inputs: list[Array], expected: Expected
) -> Iterator[LayerDifference]:
    if args.digests is not None:
        yield from _printed(args.digests, artifact, expected)
        return
    with devices.open(args.device) as opened:
        yield from differences(artifact, opened, inputs, expected, trust=args.trust)


def _printed(path: str, artifact: Artifact, expected: Expected) -> Iterator[LayerDifference]:
    """Compares with the digests that a firmware printed: a digest shows that a layer differs, but
    not where."""
    printed = read_digests(read_whole(path).decode("utf-8", "replace"))
    seen: dict[int, int] = {}
    for tap in taps(artifact):
        output = seen[tap.step] = seen.get(tap.step, -1) + 1
        key = (tap.step, output if tap.behind is None else tap.behind)
        wanted = expected(tap)
        if wanted is None or key not in printed:
            continue
        elements, value = printed[key]
        same = (elements, value) == (wanted.size, digest(wanted))
        yield LayerDifference(
            tap.layer, tap.name, tap.step, tap.view.shape, elements, 0 if same else elements
        )


def _expected(
    args: argparse.Namespace, artifact: Artifact, inputs: list[Array]
) -> tuple[Expected, Mapping[str, Departure]]:
    """With what it is compared, and where a stated rounding departs from the framework's."""
    if args.against == args.device and args.digests is None:
        raise ConfigError(
            f"--against {args.against} is the device itself: name another, the model's file, or "
            "reference"
        )
    if args.target is None:
        options = {"framework": args.framework, "trust": args.trust}
        return expected_from(args.against, artifact, inputs, **options), {}
    if args.framework or not is_file_of_model(args.against):
        raise ConfigError(
            f"--target {args.target} says how its back ends round the operators of a model's file: "
            f"--against {args.against}{' --framework' * args.framework} is none"
        )
    from loadstone.analysis.stated import stated_values
    from loadstone.backend.target import resolve

    target = resolve(args.target, getattr(args, "plugins", None))
    values = stated_values(args.against, artifact, inputs, target)
    return values.expected, values.departures


def _departed(departures: Mapping[str, Departure], every: bool) -> list[str]:
    """Operators that are rounded near: each that departs, or all of them; at the end, together."""
    if not departures:
        return []
    short = short_names(list(departures))
    lines = [
        f"  {one_line(short[name])}: {one}"
        for name, one in departures.items()
        if every or one.different
    ]
    beyond = sum(one.largest > one.stated for one in departures.values())
    total = (
        f"{len(departures)} operators are rounded near, {beyond} of them further from the "
        "framework's integers than stated"
    )
    return [*lines, total]


def _text(found: list[LayerDifference], args: argparse.Namespace) -> str:
    what = f"{args.digests or args.device} with {args.against}"
    wrong = next((entry for entry in found if _is_wrong(entry, args)), None)
    if any(entry.from_float for entry in found):
        return _lost(found, wrong, what, args.min_db)
    within = f" within {args.atol:g}" if args.atol else ""
    if wrong is None:
        return f"{what}: {len(found)} tensors compared, all equal{within}{_rounded(found)}"
    before = found[: found.index(wrong)]
    return (
        f"{what}: first different in layer {one_line(wrong.layer)} (step {wrong.step})\n"
        f"  {described(wrong)}\n  {len(before)} tensors before it are equal{within}"
        f"{_rounded(before)}"
    )


def _rounded(found: list[LayerDifference]) -> str:
    """How many are equal but for the rounding of float32, and by how much they differ."""
    rounded = [entry for entry in found if entry.rounding]
    if not rounded:
        return ""
    most = max(entry.largest for entry in rounded)
    return f"; {len(rounded)} of them within the rounding of float32, by {most:g} at most"


def _lost(
    found: list[LayerDifference], wrong: LayerDifference | None, what: str, min_db: float
) -> str:
    """The loss of a quantized network, compared with the float one."""
    short = short_names([entry.layer for entry in found])
    known = [(e.decibels, e.layer) for e in found if e.decibels is not None]
    least = "; ".join(
        f"{one_line(short[name])} {ratio:.1f} dB" for ratio, name in sorted(known)[:5]
    )
    if wrong is None:
        first = f"{len(found)} tensors compared as real numbers, none below {min_db:g} dB"
    else:
        first = (
            f"first below {min_db:g} dB of signal to noise in layer {one_line(wrong.layer)} "
            f"(step {wrong.step})\n  {described(wrong)}"
        )
    return f"{what}: {first}\n  noisiest: {least or 'all equal'}"


def _rows(found: list[LayerDifference]) -> list[tuple[str, str, str]]:
    short = short_names([entry.layer for entry in found])
    return [(one_line(short[e.layer]), str(e.elements), described(e)) for e in found]


def _unordered(found: list[LayerRace]) -> str:
    """The first pair of instructions that no token orders: the result may be right on one device
    and wrong on another."""
    first = found[0]
    short = short_names([first.layer, first.other])
    where = (
        f"layer {one_line(short[first.layer])}"
        if first.layer == first.other
        else f"layers {one_line(short[first.other])} and {one_line(short[first.layer])}"
    )
    more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"a token is missing in {where} (step {first.step}): what they compute depends on how fast "
        f"the device is{more}\n  {one_line(first.text)}"
    )
