# SPDX-License-Identifier: Apache-2.0
"""`loadstone conform BACKEND`: which operators a back end takes, refuses (and why), or computes
wrongly.

In:   an accelerator as in a target: a built-in device, or a plug-in.
Out:  a table by kind of operator; each reason and each wrong case, and the smallest network that is
      wrong, also as a file. Exit status 1 when something is wrong.
Next: docs/bring-your-own-accelerator.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import add_plugin_options as extend
from loadstone.commands.plugin_options import target_of
from loadstone.commands.verifying import add_verify, verify_as_asked

if TYPE_CHECKING:
    from loadstone.backend.target import Target
    from loadstone.conformance.check import Verdict
    from loadstone.conformance.smallest import Smallest

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone conform vtaq-1x16x16
  loadstone conform npu --uma-backends mine --cases 50
  loadstone conform npu --uma-backends mine --save wrong.onnx
"""


#: The largest number of cases: more would run for days.
MAX_CASES = 100_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds BACKEND, --cases, --seed, --save and --json."""
    parser.epilog = _EPILOG
    add_verify(parser)
    cases = parser.add_argument_group("cases")
    results = parser.add_argument_group("results")
    parser.add_argument(
        "backend", metavar="BACKEND", help="an accelerator, with attributes as in a target"
    )
    cases.add_argument(
        "--cases",
        metavar="N",
        type=int,
        default=8,
        help="cases of each kind (default: %(default)s)",
    )
    cases.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=0,
        help="the seed of the cases (default: %(default)s)",
    )
    results.add_argument(
        "--save",
        metavar="FILE.onnx",
        type=Path,
        help="where to write the smallest network that is wrong, and its samples beside it (.npz): what `loadstone compile` and `compare` take",
    )
    results.add_argument("--json", action="store_true", help="every case as JSON")


def run(args: argparse.Namespace) -> int:
    """1 when a case is wrong, else 0."""
    from loadstone.backend.target import resolve
    from loadstone.conformance.check import conform
    from loadstone.errors import TargetError

    verify_as_asked(args)

    if not 1 <= args.cases <= MAX_CASES or args.seed < 0:
        raise TargetError(
            f"conform: --cases {args.cases} or --seed {args.seed}: 1 to {MAX_CASES} cases, and a "
            "seed of 0 or more"
        )
    if args.save is not None and args.save.suffix != ".onnx":
        raise TargetError(f"conform: --save {args.save}: the file is ONNX: call it NAME.onnx")
    target = resolve(target_of(args, args.backend), args.plugins)
    verdicts = list(conform(target, args.cases, args.seed))
    wrong = any(verdict.outcome == "wrong" for verdict in verdicts)
    least = counterexample(target, verdicts, args.save) if wrong else []
    if args.json:
        print(json_text([asdict(verdict) for verdict in [*verdicts, *least]]))
    else:
        print(table(verdicts, least))
    return int(wrong)


def counterexample(target: Target, verdicts: Sequence[Verdict], save: Path | None) -> list[Verdict]:
    """The smallest network that is wrong, written to `save` where ONNX can say it; nothing where no
    network shows what is wrong."""
    from loadstone.conformance.check import Verdict
    from loadstone.conformance.smallest import smallest
    from loadstone.errors import UnsupportedError, not_installed

    try:
        found = smallest(target, verdicts)
    except ModuleNotFoundError as error:
        return [Verdict("", "", "smallest", not_installed(str(error.name), "compiler"))]
    if found is None:
        return []
    why, saved = found.why, ""
    if save is not None:
        try:
            saved = _saved(found, save)
        except UnsupportedError as error:
            why = f"{why} (not written to {save}: {error})"
    return [Verdict(found.kind, found.words, "smallest", why, saved=saved)]


def _saved(found: Smallest, path: Path) -> str:
    """The file's name. Beside it are the samples that were compared, and what the network's
    definition gives for them. Raises UnsupportedError."""
    import numpy as np

    from loadstone.conformance.check import samples_of
    from loadstone.conformance.onnx_case import onnx_case
    from loadstone.files import write_whole
    from loadstone.graph.reference import run

    model = onnx_case(found.graph)
    inputs = samples_of(found.graph)
    results = [run(found.graph, list(sample)) for sample in zip(*inputs, strict=True)]
    arrays = {f"in{number}": array for number, array in enumerate(inputs)}
    arrays |= {f"out{k}": np.stack(column) for k, column in enumerate(zip(*results, strict=True))}
    write_whole(path, model.SerializeToString())
    np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
    return str(path)


def table(verdicts: Sequence[Verdict], least: Sequence[Verdict] = ()) -> str:
    """Counts by kind, the most frequent refusal of each, then all wrong cases, and the smallest."""
    lines = [f"{'kind':<16} {'taken':>5} {'refused':>7} {'wrong':>5}  why refused"]
    for kind in dict.fromkeys(verdict.kind for verdict in verdicts):
        group = [verdict for verdict in verdicts if verdict.kind == kind]
        count = Counter(verdict.outcome for verdict in group)
        why = Counter(
            verdict.why
            for verdict in group
            if verdict.outcome == "refused" or (verdict.outcome == "taken" and verdict.why)
        )
        more = f" (and {len(why) - 1} other reasons)" if len(why) > 1 else ""
        reason = f"{why.most_common(1)[0][0]}{more}" if why else ""
        lines.append(
            (
                f"{kind:<16} {count['taken']:>5} {count['refused']:>7} {count['wrong']:>5}  "
                f"{reason}"
            ).rstrip()
        )
    wrong = [verdict for verdict in verdicts if verdict.outcome == "wrong"]
    lines += [f"WRONG {verdict.kind}: {verdict.why}: {verdict.case}" for verdict in wrong]
    lines += map(_smallest_line, least)
    untried = [verdict for verdict in verdicts if verdict.outcome == "untried"]
    lines += [f"untried {verdict.case}: {verdict.why}" for verdict in untried]
    count = Counter(verdict.outcome for verdict in verdicts)
    lines.append(
        f"{len(verdicts) - len(untried)} cases: {count['taken']} taken and equal, {count['refused']} "
        f"refused, {count['wrong']} wrong"
    )
    return "\n".join([*lines, *_departures(verdicts)])


def _smallest_line(verdict: Verdict) -> str:
    if not verdict.case:
        return f"SMALLEST: not looked for: {verdict.why}"
    where = f"written to {verdict.saved}" if verdict.saved else "--save FILE.onnx writes it"
    return f"SMALLEST {verdict.kind}: {verdict.why}: {verdict.case} ({where})"


def _departures(verdicts: Sequence[Verdict]) -> list[str]:
    """One line where the device rounds in a way of its own."""
    found = [departure for verdict in verdicts for departure in verdict.departures]
    if not found:
        return []
    different, elements = (
        sum(getattr(one, name) for one in found) for name in ("different", "elements")
    )
    most, stated = (max(getattr(one, name) for one in found) for name in ("largest", "stated"))
    return [
        f"rounded near: {different} of {elements} elements of operators by themselves differ from the "
        f"framework's, by {most} at most (stated: at most {stated}); all are what the back end states"
    ]
