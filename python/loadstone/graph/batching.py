# SPDX-License-Identifier: Apache-2.0
"""Give a network made for one sample the batch of the device.

In:   a Graph whose tensors have the rows of one sample along their leading axis (mostly 1), and the
      rows of a tile.
Out:  the same Graph with that axis times the device's batch, and each operator's successor.
Next: back ends lower the operators; one run of the artifact takes that many samples.

Constants that operators read as tensors are repeated for every sample. Samples are independent:
every operator of graph/ works on each row of the leading axis alone, and operators that would mix
rows (a concatenation along it, a transpose that moves it ...) are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from loadstone import graph as g
from loadstone.errors import UnsupportedError

__all__ = ["batched", "batched_operator"]


def batched(graph: g.Graph, samples: int) -> tuple[g.Graph, Mapping[g.Operator, g.Operator]]:
    """The network for `samples` at once, and old operator -> new. Raises UnsupportedError naming
    what mixes samples."""
    if samples == 1:
        return graph, {operator: operator for operator in graph.operators}
    renewed = {operator: batched_operator(operator, samples) for operator in graph.operators}
    return (
        replace(
            graph,
            inputs=tuple(_batched_tensor(t, samples) for t in graph.inputs),
            outputs=tuple(_batched_tensor(t, samples) for t in graph.outputs),
            operators=tuple(renewed.values()),
            constants={
                name: np.concatenate([array] * samples) for name, array in graph.constants.items()
            },
        ),
        renewed,
    )


def batched_operator(operator: g.Operator, samples: int) -> g.Operator:
    """One operator for `samples`. Raises UnsupportedError for one that mixes them."""
    if samples == 1:
        return operator
    if operator.mixes_samples:
        raise UnsupportedError(
            f"{operator.kind} {operator.name} mixes samples: compile for a device whose "
            f"batch is 1, not {samples}"
        )
    return replace(
        operator,
        inputs=tuple(_batched_tensor(t, samples) for t in operator.inputs),
        outputs=tuple(_batched_tensor(t, samples) for t in operator.outputs),
    )


def _batched_tensor(tensor: g.Tensor, samples: int) -> g.Tensor:
    if not tensor.shape:
        raise UnsupportedError(
            f"tensor {tensor.name} is a single number: compile for a device whose batch is "
            f"1, not {samples}"
        )
    return replace(tensor, shape=(samples * tensor.shape[0], *tensor.shape[1:]))
