# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz.models --seconds N`: mutants of models, compiled and run, compared with
what their framework makes of them.

In:   networks of random_tflite.py and random_onnx.py, and programs of PyTorch, by number.
Out:  a line for what went wrong, then counts of every verdict; exit status 1 if a mutant was
      different, a traceback or a hang.
Next: test_fuzz.py runs it for twenty seconds.

A mutant is sound as a file and strange as a network: other scales and zero points, a fused
activation that has no kernel, an operator in the place of another one, options, axes and shapes
that do not fit. Loadstone must refuse it in one line, or give what LiteRT's reference kernels, ONNX
Runtime without optimisations and PyTorch give. Loadstone and framework run in processes of their
own (worker.py), with a limit of time: both may die. ONNX Runtime computes QDQ in float32: where a
model is sums and what moves elements, an element may differ only as far as float32's own error
explains (float_sums.py); elsewhere one in ten may differ by one (NUMERICS: the integers are what is
meant). Such mutants are single operators.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import onnx_builder, tflite_builder
from tests.fuzz import float_sums, onnx_mutants, tflite_mutants
from tests.fuzz.worker import Worker

__all__ = ["BAD", "Mutant", "fuzz", "import_all", "main", "mutant", "verdict", "workers"]

DEVICE = "vtaq-1x16x16"
#: Seconds that one mutant may take, in each of its two processes.
TIMEOUT_SECONDS = 60
MAX_MESSAGE = 400
#: One element in so many may differ by one under ONNX: interpolation and small scales put many real
#: values on the edge of two integers.
NEAR_PART = 10
BAD = ("different", "traceback", "hang")
FORMATS = ("tflite", "onnx", *(("pt2",) if find_spec("torch") else ()))


@dataclass(frozen=True)
class Mutant:
    """`model` in format `kind`, inputs for it, and what was changed."""

    kind: str
    number: int
    model: bytes
    inputs: list[NDArray[Any]]
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        """tflite:12 is what --only takes."""
        return f"{self.kind}:{self.number}"


def mutant(kind: str, number: int) -> Mutant:
    """Mutant `number`: always the same one."""
    if kind == "pt2":
        from tests.fuzz import torch_mutants  # where PyTorch is installed

        return Mutant(kind, number, *torch_mutants.mutant(number))
    made = tflite_mutants.mutant(number) if kind == "tflite" else onnx_mutants.mutant(number)
    return Mutant(kind, number, *made)


def verdict(case: Mutant, ours: Worker, theirs: Worker) -> tuple[str, str]:
    """(verdict, its reason): refused, equal, near, unchecked (the framework refuses it), or one of
    BAD."""
    said, outputs = ours.ask(case)
    if said != "done":
        return said, str(outputs)
    theirs_said, wanted = theirs.ask(case)
    if theirs_said != "done":
        return "unchecked", str(wanted)
    return _compared(case, outputs, wanted)


def workers(folder: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> tuple[Worker, Worker]:
    """Loadstone and the frameworks, each in a process of its own."""
    return (
        Worker(lambda case: _compile_and_run(case, folder), timeout_seconds),
        Worker(_framework, timeout_seconds),
    )


def _compile_and_run(case: Mutant, folder: Path) -> tuple[str, Any]:
    from loadstone.compiler import compile
    from loadstone.errors import LoadstoneError

    path = folder / f"mutant{case.number}.{case.kind}"
    path.write_bytes(case.model)
    try:
        compiled = compile(path, DEVICE, as_float=case.kind == "pt2")
        asked = [(tuple(t.shape), t.dtype) for t in compiled.graph.inputs]
        if case.kind == "tflite" and asked != [(x.shape, x.dtype.name) for x in case.inputs]:
            return "refused", "its inputs have other shapes or types now"
        outputs = compiled.run(*(x[None] for x in case.inputs))
    except LoadstoneError as error:
        text = str(error)
        if "\n" in text or len(text) > MAX_MESSAGE or path.stem not in text:
            return (
                "traceback",
                f"a message of {len(text)} characters that is not one line with the model's "
                f"name: {text!r}",
            )
        return "refused", text.removeprefix(f"{path.name}: ")
    finally:
        path.unlink()
    return "done", [output[0] for output in outputs]


def _framework(case: Mutant) -> tuple[str, Any]:
    if case.kind == "pt2":
        from tests.quantizers import as_torch

        return "done", as_torch.run(case.model, case.inputs)
    run: Callable[..., list[NDArray[Any]]] = (
        tflite_builder.run if case.kind == "tflite" else onnx_builder.run
    )
    return "done", run(case.model, case.inputs)


def _compared(
    case: Mutant, ours: list[NDArray[Any]], theirs: list[NDArray[Any]]
) -> tuple[str, str]:
    worst, verdict_, limits = "", "equal", _Limits(case)
    for index, (got, want) in enumerate(zip(ours, theirs, strict=True)):
        shaped = case.kind != "tflite" or got.shape == (want.shape or (1,))
        if got.size != want.size or got.dtype != want.dtype or not shaped:
            return (
                "different",
                f"output {index} is {got.dtype} {got.shape}, the framework's {want.dtype} "
                f"{want.shape}",
            )
        flat = got.reshape(want.shape)
        apart = ~((flat == want) | ((flat != flat) & (want != want)))
        if not np.any(apart):
            continue
        with np.errstate(invalid="ignore"):  # infinity less infinity
            most = np.abs(flat.astype(np.float64) - want.astype(np.float64))[apart].max()
        worst = (
            f"{np.count_nonzero(apart)} of {want.size} elements of output {index} "
            f"differ, by {most:g} at most"
        )
        near = limits.allow(index, flat, want) if case.kind != "tflite" else _rounded(flat, want)
        verdict_ = "near" if near and verdict_ != "different" else "different"
    return verdict_, worst


def _rounded(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether real numbers of TFLite differ by sums of float32 in another order alone."""
    if theirs.dtype != np.float32:
        return False
    finite = np.isfinite(theirs)
    largest = np.abs(theirs[finite]).max(initial=0.0)
    return bool(np.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * largest, equal_nan=True))


class _Limits:
    """How far results may be from ONNX Runtime's; computed when it is first asked."""

    def __init__(self, case: Mutant) -> None:
        self._case = case

    @cached_property
    def _integers(self) -> list[tuple[Any, Any]] | None:
        if self._case.kind == "pt2":
            from tests.quantizers import torch_sums

            return torch_sums.integers(self._case.model, self._case.inputs)
        return float_sums.integers(self._case.model, self._case.inputs)

    def allow(self, index: int, ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
        """ours, theirs: output `index`, of its shape."""
        if self._case.kind == "pt2" and b"quantized_decomposed" not in self._case.model:
            with np.errstate(invalid="ignore"):
                return theirs.dtype.kind == "f" and np.allclose(
                    ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True
                )
        if self._integers is None:
            apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            whole = theirs.dtype.kind in "iu"
            return whole and bool(
                apart.max() <= 1 and apart.sum() <= max(1, ours.size // NEAR_PART)
            )
        low, high = self._integers[index]
        return all(bool(np.all((low <= x) & (x <= high))) for x in (ours, theirs))


def fuzz(
    seconds: float,
    formats: tuple[str, ...] = FORMATS,
    first: int = 0,
    count: int | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Counter[str], list[str]]:
    """Mutants from number `first` on, formats in turn, for so long or `count` of each. Counts by
    "format verdict", and what was bad."""
    import_all()
    counts: Counter[str] = Counter()
    bad: list[str] = []
    end, number = time.monotonic() + seconds, first
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = workers(Path(folder))
        with ours, theirs:
            while time.monotonic() < end and (count is None or number < first + count):
                for kind in formats:
                    case = mutant(kind, number)
                    said, why = verdict(case, ours, theirs)
                    counts[f"{kind} {said}"] += 1
                    if said in BAD:
                        bad.append(f"{case.name} {said}: {why} [{'; '.join(case.changes)}]")
                        say(bad[-1])
                number += 1
    return counts, bad


def import_all() -> None:
    """Before the forks: importing TVM and the frameworks takes seconds."""
    for name in ("loadstone.compiler", "ai_edge_litert.interpreter", "onnxruntime"):
        import_module(name)


def _flushed(line: str) -> None:
    print(line, flush=True)


def main(words: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.models", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--format", choices=FORMATS, help="only this one (default: all in turn)")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first mutant (default 0)"
    )
    parser.add_argument("--count", type=int, help="so many of each format at most")
    parser.add_argument("--only", help="one mutant, as format:number; says what became of it")
    parser.add_argument("--save", type=Path, help="with --only: write its model there")
    args = parser.parse_args(words)
    if args.only:
        kind, _, number = args.only.partition(":")
        case = mutant(kind, int(number))
        if args.save:
            args.save.write_bytes(case.model)
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = workers(Path(folder))
            with ours, theirs:
                said, why = verdict(case, ours, theirs)
        print(f"{case.name} {said}: {why} [{'; '.join(case.changes)}]")
        return int(said in BAD)
    formats = (args.format,) if args.format else FORMATS
    counts, bad = fuzz(args.seconds, formats, args.first, args.count, say=_flushed)
    print(", ".join(f"{count} {label}" for label, count in sorted(counts.items())))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
