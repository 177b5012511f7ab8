# SPDX-License-Identifier: Apache-2.0
"""Checks a compiled artifact with the runtime that will load it.

In:   a new artifact.
Out:  nothing; UnsupportedError, naming the step, for an artifact that the runtime would refuse.
Next: compiler.py calls it before it returns.

The C runtime opens the file and validates its programs. Host steps that are operators are built as
for a run, and small ones are run on zeros, so that a shape or number which an operator does not
support is found here instead of on the board.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_OPERATOR, EXTERNAL_RELAX
from loadstone.errors import ArtifactError, Refusal, UnsupportedError
from loadstone.runtime.device import validate
from loadstone.runtime.externals import run_operator_step
from loadstone.runtime.step_source import content, step_source

__all__ = ["check_accepted"]

#: What is run on zeros: bytes of all operands together.
_MOST_BYTES = 1 << 16


def check_accepted(artifact: Artifact) -> None:
    """Raises UnsupportedError for what the runtime would refuse."""
    status, number, instruction = validate(artifact)
    if status:
        name = artifact.steps[number].name
        raise _refused(name, f"the validator's status is {status} at instruction {instruction}")
    for step in artifact.steps:
        if isinstance(step, HostStep) and step.function in (EXTERNAL_OPERATOR, EXTERNAL_RELAX):
            try:
                _check_step(step, artifact)
            except ArtifactError as error:
                raise _refused(step.name, str(error)) from error


def _refused(step: str, why: str) -> UnsupportedError:
    remedy = "cut the model around it with --inputs and --outputs, and report the model"
    return UnsupportedError(Refusal(f"the runtime would refuse it: {why}", remedy, "step", step))


def _check_step(step: HostStep, artifact: Artifact) -> None:
    if step.function == EXTERNAL_RELAX:
        from loadstone.relax.saved import parameter_shapes  # TVM, which made it

        inputs = [artifact.tensors[index].shape for index in step.inputs]
        _check_samples(parameter_shapes(step.attributes), inputs)
        return
    step_source(step, artifact)
    views = [artifact.tensors[index] for index in (*step.inputs, *step.outputs)]
    if sum(view.size_bytes for view in views) <= _MOST_BYTES:
        with np.errstate(all="ignore"):
            run_operator_step([content(artifact, i) for i in step.inputs], step.attributes)


def _check_samples(wanted: Sequence[tuple[int, ...]], given: Sequence[tuple[int, ...]]) -> None:
    """Operands have a whole number of samples."""
    for one, all_ in zip(wanted, given, strict=True):
        if one and (all_[1:] != one[1:] or all_[0] % one[0]):
            raise ArtifactError(f"an operand has shape {list(all_)}, one sample {list(one)}")
