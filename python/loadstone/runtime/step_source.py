# SPDX-License-Identifier: Apache-2.0
"""The C code of an external step, and the steps without one.

In:   an artifact, one of its steps.
Out:  symbol and source; the steps that need Python.
Next: `loadstone export` writes the source; compiler.py reports which steps run in C.
"""

from __future__ import annotations

import re

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels import c_kernel
from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_C, EXTERNAL_OPERATOR
from loadstone.errors import ArtifactError
from loadstone.numerics import Array
from loadstone.runtime.externals import run_operator_step, step_operator

__all__ = ["check_computable", "content", "python_steps", "step_source"]


def python_steps(artifact: Artifact) -> list[HostStep]:
    """The steps that C cannot run: of Relax, of operators without a kernel, of plug-ins."""
    external = [s for s in artifact.steps if isinstance(s, HostStep) and s.function]
    return [step for step in external if step_source(step, artifact) is None]


def step_source(step: HostStep, artifact: Artifact) -> tuple[str, str] | None:
    """(symbol, source) of an external step; None where there is no C. Raises ArtifactError for a
    damaged one."""
    if step.function == EXTERNAL_C:
        symbol, _, source = step.attributes.partition("\n")
        if not re.fullmatch(r"lds_c_[0-9a-f]{1,64}", symbol):
            raise ArtifactError(f"a step in C calls itself {symbol[:80]!r}: the file is damaged")
        return symbol, source
    if step.function != EXTERNAL_OPERATOR:
        return None
    operator = step_operator(step.attributes, [content(artifact, i) for i in step.inputs])
    _check(operator, step, artifact)
    made = c_kernel(operator)
    return None if made is None else (made.symbol, made.source)


def check_computable(step: HostStep, artifact: Artifact) -> None:
    """Computes an operator once, so that what becomes C stays inside its tensors: windows and
    slices of a hostile description need not. Raises ArtifactError."""
    run_operator_step([content(artifact, i) for i in step.inputs], step.attributes)


def content(artifact: Artifact, index: int) -> Array:
    """A constant's, in its shape; of any other tensor zeros."""
    tensor = artifact.tensors[index]
    data = artifact.regions[tensor.region].data
    end = tensor.offset_bytes + tensor.size_bytes
    if not data:
        return np.zeros(tensor.shape, tensor.dtype.numpy)
    whole = data[tensor.offset_bytes : end]
    return np.frombuffer(whole, tensor.dtype.numpy).reshape(tensor.shape)


def _check(operator: g.Operator, step: HostStep, artifact: Artifact) -> None:
    """The description comes from a file, and becomes C: its tensors are those of the step."""
    inputs = step.inputs[: len(operator.inputs)]
    described = (*operator.inputs, *operator.outputs)
    actual = [artifact.tensors[i] for i in (*inputs, *step.outputs)]
    same = len(described) == len(actual) and all(
        (t.shape, np.dtype(t.dtype)) == (tuple(v.shape), np.dtype(v.dtype.numpy))
        for t, v in zip(described, actual, strict=True)
    )
    if not same:
        raise ArtifactError(
            f"step {step.name!r}: its attributes describe another operator than its tensors: the "
            "file is damaged"
        )
