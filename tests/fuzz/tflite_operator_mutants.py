# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz.tflite_operator_mutants --count N`: every builtin operator of TFLite with
something changed.

In:   a case of an operator (tests/frontend/tflite_cases.py), by number.
Out:  a line for what went wrong, then counts of every verdict; exit status 1 if a mutant was
      different, a traceback or a hang.
Next: test_fuzz.py runs some.

A third of them have another value of some option of the schema; a third what tflite_mutants.py
changes: scales, types, shapes, constants, operators, wires; a third have bytes changed, sound or
not: a file of one operator is some hundred bytes, most of them structure. Loadstone and LiteRT run
in processes of their own, as models.py has them.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.frontend.tflite_operators import OPERATORS
from loadstone.frontend.tflite_options import defaults
from tests.draw import Random
from tests.frontend.tflite_cases import CASES, drawn, model
from tests.fuzz import models
from tests.fuzz.tflite_mutants import changed
from tests.tflite_builder import Graph

__all__ = ["fuzz", "main", "mutant"]

#: Operators that LiteRT's reference kernels lack.
LACKING = ("CEIL", "ELU", "ROUND")
MOST_BYTES = 3


def mutant(number: int) -> models.Mutant:
    """Mutant `number`: always the same one."""
    rng, draw = np.random.default_rng(number), Random(number)
    kinds = [kind for kind, cases in CASES.items() if cases and kind not in LACKING]
    kind = draw.pick(kinds)
    one = draw.pick(CASES[kind])
    letter = draw.pick(list(one.types))
    graph, outputs = model(kind, [one], letter)
    inputs = drawn(graph, [one], number)
    label = f"{kind} {letter} {dict(one.options)}"
    whole = graph.save(outputs)
    how = number % 3
    if how == 0:
        changes = [_option(graph, draw)]
    elif how == 1:
        changes = changed(graph, draw)
    else:
        data, changes = _bytes(whole, rng)
        return models.Mutant("tflite", number, data, inputs, (label, *changes))
    try:
        data = graph.save([graph.tensors[tensor.index] for tensor in outputs])
    except (AttributeError, TypeError, KeyError, ValueError, OverflowError, struct.error):
        data, changes = _bytes(whole, rng)  # the builder cannot write it
    return models.Mutant("tflite", number, data, inputs, (label, *changes))


def _option(graph: Graph, draw: Random) -> str:
    """Any field of the operator's options, at any value near what fields have."""
    operator = graph.operators[0]
    taken = OPERATORS.get(operator.kind)
    usual = defaults(taken.options) if taken is not None else dict(operator.options or {})
    if not usual:
        return "nothing"
    name = draw.pick(sorted(usual))
    old = (operator.options or {}).get(name, usual[name])
    new: Any = draw.int(-3, 7)
    if isinstance(usual[name], bool):
        new = not old
    elif isinstance(usual[name], float):
        new = draw.pick([0.0, -1.0, 0.5, 3.0])
    elif isinstance(usual[name], tuple | list):
        new = [draw.int(-3, 7) for _ in range(draw.int(0, 4))]
    elif isinstance(usual[name], str):
        new = "other"
    options = {**(operator.options or {}), name: new}
    graph.operators[0] = replace(operator, options=options)
    return f"{name}: {old} -> {new}"


def _bytes(model_: bytes, rng: np.random.Generator) -> tuple[bytes, list[str]]:
    data, changes = np.frombuffer(model_, np.uint8).copy(), list[str]()
    for place in rng.integers(8, len(data), rng.integers(1, MOST_BYTES + 1)):
        old = data[place]
        data[place] = _changed(int(old), rng)
        changes.append(f"byte {place}: {old} -> {data[place]}")
    return data.tobytes(), changes


def _changed(old: int, rng: np.random.Generator) -> int:
    """A bit, a step, or any byte: options and types have small numbers."""
    how = int(rng.integers(3))
    if how == 0:
        return old ^ (1 << int(rng.integers(8)))
    return (old + int(rng.integers(1, 4))) % 256 if how == 1 else int(rng.integers(256))


def fuzz(
    count: int, first: int = 0, say: Callable[[str], None] = print
) -> tuple[Counter[str], list[str]]:
    """`count` mutants from number `first` on. Counts by verdict, and what was bad."""
    models.import_all()
    counts: Counter[str] = Counter()
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = models.workers(Path(folder))
        with ours, theirs:
            for number in range(first, first + count):
                case = mutant(number)
                said, why = models.verdict(case, ours, theirs)
                counts[said] += 1
                if said in models.BAD:
                    bad.append(f"{number} {said}: {why} [{'; '.join(case.changes)}]")
                    say(bad[-1])
    return counts, bad


def main(words: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.tflite_operator_mutants")
    parser.add_argument("--count", type=int, default=100, help="so many (default 100)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0)")
    parser.add_argument("--save", type=Path, help="write the first mutant's model there, and end")
    args = parser.parse_args(words)
    if args.save:
        args.save.write_bytes(mutant(args.first).model)
        return 0
    counts, bad = fuzz(args.count, args.first, lambda line: print(line, flush=True))
    print(", ".join(f"{count} {label}" for label, count in sorted(counts.items())))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
