# SPDX-License-Identifier: Apache-2.0
"""described_operator.py: numbers of a field's type and range, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.artifact.c_kernels import c_kernel, operator_arrays
from loadstone.artifact.host import _to_json
from loadstone.errors import ArtifactError, UnsupportedError
from loadstone.graph import Operator
from loadstone.numerics import Rounding
from loadstone.runtime.described_operator import described_operator
from loadstone.runtime.externals import run_operator_step
from tests.artifact.c_kernels.operators import one, tensor
from tests.artifact.test_host import BUILT_IN, OTHERS

#: With and without arrays; windows, axes, slices; kinds that a step in C computes, too.
OPERATORS: dict[str, Operator] = {
    **OTHERS,
    **BUILT_IN,
    "sum of rows": one(g.ReduceSum, (tensor("x", 1, 6, 5),), tensor("y", 1, 5), axes=(1,)),
    "convolution": g.Conv2D(
        name="y",
        inputs=(tensor("x", 1, 5, 5, 4),),
        outputs=(tensor("y", 1, 3, 3, 2),),
        weights=np.ones((2, 3, 3, 4), np.int8),
        weight_scales=np.full(2, 0.03, np.float32),
        weight_zero_points=np.zeros(2, np.int32),
        bias=np.zeros(2, np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=1,
    ),
}

#: What a hostile file may say instead of a number.
ODD: list[Any] = [
    True, None, "7", "0); abort(", [], {}, [1, [2]], 1.5, float("nan"), float("inf"),
    10**30, 1099511627776, -(2**40), 2**31, -1, 0, [0], [10**30, 1], [True, True], [0, 0, 0, 0],
    [1, 1, 1, 1, 1, 1, 1], [-1, -1],
]  # fmt: skip


def described(operator: Operator) -> tuple[dict[str, Any], list[np.ndarray]]:
    """As artifact/host.py writes it; zeros for its inputs."""
    arrays = operator_arrays(operator)
    inputs = [np.zeros(t.shape, t.dtype) for t in operator.inputs]
    inputs += [np.array(getattr(operator, name)) for name in arrays]
    return json.loads(_to_json(operator, arrays)), inputs


@pytest.mark.parametrize("name", OPERATORS)
def test_what_the_compiler_writes_is_read(name: str) -> None:
    operator = OPERATORS[name]
    said, inputs = described(operator)
    found, count = described_operator(json.dumps(said), inputs)
    assert type(found) is type(operator)
    assert count == len(operator.inputs)
    for field, value in vars(operator).items():
        np.testing.assert_array_equal(getattr(found, field), value)


@pytest.mark.parametrize("name", OPERATORS)
def test_odd_values_are_refused_or_computed(name: str) -> None:
    """By one line of ours, for Python and for C alike: and what is accepted is of its type."""
    said, inputs = described(OPERATORS[name])
    for field, value in said["fields"].items():
        for odd in ODD:
            text = json.dumps({**said, "fields": {**said["fields"], field: odd}})
            try:
                run_operator_step(inputs, text)
                made = c_kernel(described_operator(text, inputs)[0])
            except (ArtifactError, UnsupportedError):
                continue
            assert type(odd) is type(value), (field, odd)
            assert made is None or "True" not in made.source


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"kind": "Host"}, "there is no operator 'Host'"),
        ({"kind": ["Add"]}, "there is no operator"),
        ({"fields": {"color": 1}}, "there is no field 'color'"),
        ({"fields": 3}, "no operator"),
        ({"arrays": ["weights", "bias"]}, "no operator"),
        ({"tensors": [[["x", [1, 2], "int8", [True, 0]]], []]}, "no quantization"),
        ({"tensors": [[["x", [1, -2], "int8", None]], []]}, "no shape"),
        ({"tensors": [[["x", [1], "object", None]], []]}, "no tensor"),
        ({"tensors": [[["x", [65536, 65536], "int8", None]], []]}, "no shape"),
        ({"tensors": [[["x", [1], "int8", [1.0, 300]]], []]}, "no quantization"),
    ],
)
def test_other_descriptions_are_one_line(change: dict[str, Any], line: str) -> None:
    said, inputs = described(OPERATORS["average pool"])
    with pytest.raises(ArtifactError, match=line) as found:
        run_operator_step(inputs, json.dumps({**said, **change}))
    assert "\n" not in str(found.value)


def test_low_above_high_is_refused() -> None:
    said, inputs = described(OPERATORS["average pool"])
    said["fields"] |= {"low": 5, "high": 4}
    with pytest.raises(ArtifactError, match="low=5 is above high=4"):
        run_operator_step(inputs, json.dumps(said))
