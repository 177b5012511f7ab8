# SPDX-License-Identifier: Apache-2.0
"""What artifact/host.py hands to the Python runtime, executed: operators by graph/reference.py,
Relax functions by TVM.

In:   the arrays of an external step's inputs, and its attributes.
Out:  the arrays of its outputs.
Next: device.py calls these when the C runtime comes to an external step.

Only EXTERNAL_RELAX needs TVM. session.py alone imports this file, and only for an artifact that has
such a step: a board that runs none never loads the kernels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from loadstone import graph as g
from loadstone.artifact.host_step import EXTERNAL_OPERATOR, EXTERNAL_RELAX
from loadstone.errors import ArtifactError, cause_of
from loadstone.files import JsonValue
from loadstone.graph.base import Fields
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array, Rounding
from loadstone.printable import one_line

__all__ = ["EXTERNALS", "run_operator_step", "run_relax_step", "step_operator"]


#: What the outputs of one operator take at most: sums of 64 bits take eight times that.
MAX_OUTPUT_BYTES = 256 << 20


def run_operator_step(inputs: Sequence[Array], attributes: str) -> list[Array]:
    """EXTERNAL_OPERATOR: the operator that `attributes` describes, its arrays behind its inputs.
    Each array has the shape that the description gives it.

    Raises ArtifactError for attributes that describe none: they come from a file.
    """
    try:
        operator, sources = _operator_of(inputs, attributes)
        return [np.asarray(a) for a in run_operator(operator, list(inputs[:sources]))]
    except Exception as error:  # whatever the fields of a hostile file bring about
        raise _refused(error) from None


def step_operator(attributes: str, inputs: Sequence[Array]) -> g.Operator:
    """The operator of such a step. inputs: as above, each of its own shape; only those behind the
    operator's own matter. Raises ArtifactError."""
    try:
        return _operator_of(inputs, attributes)[0]
    except Exception as error:
        raise _refused(error) from None


def _refused(error: Exception) -> ArtifactError:
    return ArtifactError(
        f"external step {EXTERNAL_OPERATOR}: its attributes are no operator that can be "
        f"computed: {one_line(cause_of(error))[:200]}"
    )


def _operator_of(inputs: Sequence[Array], attributes: str) -> tuple[g.Operator, int]:
    """The operator, and how many of `inputs` are its inputs."""
    said = json.loads(attributes)
    values: Fields = {k: tuple(v) if isinstance(v, list) else v for k, v in said["fields"].items()}
    if "rounding" in values:
        values["rounding"] = Rounding(int(values["rounding"]))
    sources, targets = (tuple(_tensor_of(t) for t in side) for side in said["tensors"])
    values.update(zip(said["arrays"], (np.array(a) for a in inputs[len(sources) :]), strict=True))
    kind = getattr(g, str(said["kind"]), None)
    if not (isinstance(kind, type) and issubclass(kind, g.Operator)) or kind is g.Host:
        raise ValueError(f"there is no operator {said['kind']!r}")
    for tensor, array in zip(sources, inputs, strict=False):
        if (array.shape, array.dtype.name) != (tensor.shape, tensor.dtype):
            raise ValueError(f"{tensor.name} is {array.dtype.name} {array.shape}")
    if sum(tensor.size_bytes for tensor in targets) > MAX_OUTPUT_BYTES:
        raise ValueError(f"its outputs take more than {MAX_OUTPUT_BYTES >> 20} MiB")
    return kind(inputs=sources, outputs=targets, **values), len(sources)


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
        return run_saved(attributes, inputs)
    rows = [
        [
            a[n * s[0] : (n + 1) * s[0]] if a.shape != s else a
            for a, s in zip(inputs, shapes, strict=True)
        ]
        for n in range(samples)
    ]
    results = [run_saved(attributes, row) for row in rows]
    return [np.concatenate(parts) for parts in zip(*results, strict=True)]


def _tensor_of(entry: Sequence[JsonValue]) -> g.Tensor:
    name, shape, dtype, quantization = entry
    return g.Tensor(
        name, tuple(shape), dtype, None if quantization is None else g.Quantization(*quantization)
    )


#: Name of an external step's function -> what runs it.
EXTERNALS: Mapping[str, Callable[[Sequence[Array], str], list[Array]]] = {
    EXTERNAL_OPERATOR: run_operator_step,
    EXTERNAL_RELAX: run_relax_step,
}
