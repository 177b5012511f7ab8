# SPDX-License-Identifier: Apache-2.0
"""Execute the steps that artifact/host.py leaves to the Python runtime: operators by
graph/reference.py, Relax functions by TVM.

In:   the arrays of an external step's inputs, and its attributes.
Out:  the arrays of its outputs.
Next: session.py calls these for the C runtime's external steps.

Only EXTERNAL_RELAX needs TVM. Only session.py imports this file, and only for an artifact with such
a step: other runs never load the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from loadstone import graph as g
from loadstone.artifact.host_step import EXTERNAL_OPERATOR, EXTERNAL_RELAX
from loadstone.errors import ArtifactError, cause_of
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array
from loadstone.printable import one_line
from loadstone.runtime.described_operator import described_operator

__all__ = ["EXTERNALS", "run_operator_step", "run_relax_step", "step_operator"]


def run_operator_step(inputs: Sequence[Array], attributes: str) -> list[Array]:
    """EXTERNAL_OPERATOR: the operator that `attributes` describes, its arrays behind its inputs.
    Each array has the shape that the description gives it.

    Raises ArtifactError for attributes that describe none: they come from a file.
    """
    try:
        operator, sources = described_operator(attributes, inputs)
        return [np.asarray(a) for a in run_operator(operator, list(inputs[:sources]))]
    except Exception as error:  # whatever the fields of a hostile file bring about
        raise _refused(error) from None


def step_operator(attributes: str, inputs: Sequence[Array]) -> g.Operator:
    """The operator of such a step. inputs: as above, each of its own shape; only those behind the
    operator's own matter. Raises ArtifactError."""
    try:
        return described_operator(attributes, inputs)[0]
    except Exception as error:
        raise _refused(error) from None


def _refused(error: Exception) -> ArtifactError:
    return ArtifactError(
        f"external step {EXTERNAL_OPERATOR}: its attributes are no operator that can be "
        f"computed: {one_line(cause_of(error))[:200]}"
    )


def run_relax_step(inputs: Sequence[Array], attributes: str) -> list[Array]:
    """EXTERNAL_RELAX: a module that save_function wrote, made for one sample; samples go through it
    one by one.

    inputs: (samples, ...) each, or the shape of the parameter where it has no axis of samples. The
        results are joined along their first axis.
    """
    from loadstone.relax.saved import parameter_shapes, run_saved

    shapes = parameter_shapes(attributes)
    samples = max((a.shape[0] // s[0] for a, s in zip(inputs, shapes, strict=True) if s), default=1)
    if samples == 1:
        return run_saved(attributes, [a.reshape(s) for a, s in zip(inputs, shapes, strict=True)])
    rows = [
        [
            a[n * s[0] : (n + 1) * s[0]] if a.shape != s else a
            for a, s in zip(inputs, shapes, strict=True)
        ]
        for n in range(samples)
    ]
    results = [run_saved(attributes, row) for row in rows]
    return [np.concatenate(parts) for parts in zip(*results, strict=True)]


#: Name of an external step's function -> what runs it.
EXTERNALS: Mapping[str, Callable[[Sequence[Array], str], list[Array]]] = {
    EXTERNAL_OPERATOR: run_operator_step,
    EXTERNAL_RELAX: run_relax_step,
}
