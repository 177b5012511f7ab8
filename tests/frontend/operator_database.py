# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own database of operators, sample by sample: exported, compiled, run in C, compared.

In:   torch.testing._internal.common_methods_invocations.op_db; the names of operators.
Out:  a verdict for each float32 sample: equal, refused with a reason, or wrong.
Next: test_operator_database.py; `python -m tests.frontend.operator_database --log FILE` runs all of
      it, stopped and gone on with at will.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
from torch import nn
from torch.utils import _pytree

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError
from loadstone.frontend.torch import NO_FORM, from_program

__all__ = ["Verdict", "database", "judged"]

#: Random numbers, memory that nobody wrote, and results that no mathematics fixes.
NOT_COMPARABLE = (
    *("empty", "rand", "dropout", "bernoulli", "multinomial", "normal", "uniform"),
    *("cauchy", "exponential", "geometric"),
)


@dataclass(frozen=True)
class Verdict:
    """Of one sample of an operator. weights: whether all tensors but the first are constants of the
    program. kind: equal, refused, wrong, raised, not exported. why: of a refusal; what differs."""

    operator: str
    sample: int
    weights: bool
    kind: str
    why: str = ""


class _Sample(nn.Module):
    """An operator, its arguments with some of their tensors taken out as inputs."""

    def __init__(self, function: Any, arguments: Any, *, weights: bool) -> None:
        super().__init__()
        self.function = function
        self.leaves, self.spec = _pytree.tree_flatten(arguments)
        places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.places = places[:1] if weights else places
        for k in places[1:] if weights else ():
            self.register_buffer(f"weight{k}", self.leaves[k])

    @property
    def inputs(self) -> list[Any]:
        return [self.leaves[k].detach().contiguous() for k in self.places]

    def forward(self, *tensors: Any) -> Any:
        """What the operator gives, as a flat list of tensors."""
        leaves = [getattr(self, f"weight{k}", leaf) for k, leaf in enumerate(self.leaves)]
        for k, tensor in zip(self.places, tensors, strict=True):
            leaves[k] = tensor
        args, kwargs = _pytree.tree_unflatten(leaves, self.spec)
        flat, _ = _pytree.tree_flatten(self.function(*args, **kwargs))
        return tuple(leaf for leaf in flat if isinstance(leaf, torch.Tensor))


class _Several(nn.Module):
    """Samples of one operator in one program, which is compiled in the time of one."""

    def __init__(self, samples: Sequence[_Sample]) -> None:
        super().__init__()
        self.samples = nn.ModuleList(samples)

    def forward(self, *tensors: Any) -> Any:
        """Their results, one after another."""
        found, rest = [], list(tensors)
        for sample in self.samples:
            found += sample(*(rest.pop(0) for _ in sample.places))
        return tuple(found)


def database() -> dict[str, Any]:
    """Operators with float32 samples by name, those of networks first."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, Any] = {}
    for entry in op_db:
        if torch.float32 in entry.dtypes and not any(word in entry.name for word in NOT_COMPARABLE):
            found.setdefault(f"{entry.name} {entry.variant_test_name}".strip(), entry)
    return dict(sorted(found.items(), key=lambda item: not item[0].startswith("nn.functional")))


def judged(name: str, entry: Any, most: int) -> Iterator[Verdict]:
    """Up to `most` samples, each with constant weights and with all tensors as inputs."""
    torch.manual_seed(0)
    samples = list(_first(entry, most))
    for weights in (True, False):
        taken: list[tuple[int, _Sample]] = []
        refusals: Counter[str] = Counter()
        for number, arguments in enumerate(samples):
            if refusals and refusals.most_common(1)[0][1] > 1:
                break  # the rest would be refused, too
            sample = _Sample(entry.op, arguments, weights=weights)
            if not weights and len(sample.places) < 2:
                continue
            verdict = _imported(sample)
            if verdict is None:
                taken.append((number, sample))
            else:
                refusals[verdict[1]] += 1
                yield Verdict(name, number, weights, *verdict)
        if taken:
            results = _compared([sample for _, sample in taken])
            for (number, _), result in zip(taken, results, strict=True):
                yield Verdict(name, number, weights, *result)


def _first(entry: Any, most: int) -> Iterator[Any]:
    """Arguments with elements."""
    count = 0
    for sample in entry.sample_inputs("cpu", torch.float32, requires_grad=False):
        arguments = ((sample.input, *sample.args), sample.kwargs)
        tensors = [
            leaf for leaf in _pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)
        ]
        if count < most and tensors and all(tensor.numel() for tensor in tensors):
            count += 1
            yield arguments


def _imported(sample: _Sample) -> tuple[str, str] | None:
    """None, or why not."""
    try:
        program = torch.export.export(sample, tuple(sample.inputs))
    except Exception as error:
        return "not exported", type(error).__name__
    try:
        from_program(program, "sample")
    except LoadstoneError as error:
        return ("raised" if NO_FORM in str(error) else "refused"), str(error)
    except Exception as error:
        return "raised", repr(error)
    return None


def _compared(samples: Sequence[_Sample]) -> list[tuple[str, str]]:
    """Together; one by one where that does not compile."""
    inputs = [tensor for sample in samples for tensor in sample.inputs]
    wanted = [[tensor.detach().numpy() for tensor in sample(*sample.inputs)] for sample in samples]
    try:
        program = torch.export.export(_Several(samples), tuple(inputs))
        results = iter(compile(program, "vtaq-tiny", as_float=True).run(*map(_one_sample, inputs)))
    except Exception as error:
        if len(samples) > 1:
            return [_compared([sample])[0] for sample in samples]
        refused = isinstance(error, LoadstoneError) and "Error" not in str(error)
        return [("refused" if refused else "raised", f"{type(error).__name__}: {error}")]
    return [_difference(want, [next(results) for _ in want]) for want in wanted]


def _one_sample(tensor: Any) -> Any:
    """With an axis of samples; a number is one of one element."""
    return tensor.numpy().reshape(1, *(tensor.shape or (1,)))


def _difference(wanted: Sequence[Any], got: Sequence[Any]) -> tuple[str, str]:
    for want, given in zip(wanted, got, strict=True):
        if given.size != want.size or given.dtype != want.dtype:
            return "wrong", f"{given.dtype} of {given.size}, wanted {want.dtype} of {want.size}"
        same = (
            np.allclose(given.reshape(want.shape), want, rtol=1e-4, atol=2e-5, equal_nan=True)
            if want.dtype.kind == "f"
            else np.array_equal(given.reshape(want.shape), want)
        )
        if not same:
            return "wrong", f"{given.reshape(-1)[:4]}, wanted {want.reshape(-1)[:4]}"
    return "equal", ""


def refused(lines: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Operators of which no sample is equal, with the reason of the first: the operator of ATen
    that it is broken down to, and why."""
    equal = {line["operator"] for line in lines if line["kind"] == "equal"}
    found: dict[str, str] = {}
    for line in lines:
        if line["operator"] not in equal and line["kind"] != "equal":
            why = re.sub(r' \(node "[^"]*"\)', "", line["why"]).removeprefix("sample: ")
            found.setdefault(line["operator"], f"{line['kind']}: {why}".split(": replace it")[0])
    return dict(sorted(found.items()))


def main() -> None:
    """A line of JSON for each sample; counts of kinds at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="a file for operators that are not taken")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    args.log.touch()
    lines = [json.loads(line) for line in args.log.read_text().splitlines()]
    known = {line["operator"] for line in lines}
    for name, entry in database().items():
        if name in known or (args.names and name not in args.names):
            continue
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                verdicts = [vars(verdict) for verdict in judged(name, entry, args.samples)]
            except Exception as error:  # of PyTorch's samples
                verdicts = [vars(Verdict(name, -1, False, "no samples", repr(error)[:200]))]
        verdicts = verdicts or [vars(Verdict(name, -1, False, "no samples"))]
        lines += verdicts
        with args.log.open("a") as log:
            log.write("".join(json.dumps(verdict) + "\n" for verdict in verdicts))
    print(Counter(line["kind"] for line in lines))
    if args.table:
        args.table.write_text("".join(f"{name}\t{why}\n" for name, why in refused(lines).items()))


if __name__ == "__main__":
    main()
