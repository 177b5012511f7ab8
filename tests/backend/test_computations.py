# SPDX-License-Identifier: Apache-2.0
"""backend/computations.py: what the nests say, lane by lane, is the operator's definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from loadstone.backend.computations import COMPUTATIONS, Computation
from loadstone.conformance.cases import OPERATORS
from loadstone.errors import Refusal
from loadstone.graph import Conv2D, Dense, Operator
from loadstone.graph.reference import run
from loadstone.ir_pass.affine import index
from loadstone.ir_pass.nests import Nest, NestAccess, NestTensor
from loadstone.numerics import Rounding, rq
from tests.graph.test_accumulators import unproven
from tests.repeat import times

LANES = 4


def executed(computation: Computation, arrays: dict[str, Any]) -> None:
    """Its nests in plain loops. arrays: by tensor, of its shape and lanes; written in place."""
    for nest in computation.function.body:
        assert isinstance(nest, Nest)
        (step,) = nest.steps
        for turn in product(*(range(loop.extent) for loop in nest.loops)):
            values = dict(zip(nest.loops, turn, strict=True))

            def at(access: NestAccess, values: Any = values) -> tuple[Any, tuple[int, ...]]:
                places = tuple(index(place).at(values) for place in access.at)
                inside = all(0 <= n < s for n, s in zip(places, access.tensor.shape, strict=True))
                array = arrays[access.tensor.name]
                if not inside:
                    array = np.full((*(1 for _ in places), LANES), access.pad, array.dtype)
                    places = (0,) * len(places)
                return array, places

            array, place = at(step.operands[0])
            others = [at(access) for access in step.operands[1:]]
            if step.name == "fill":
                array[place] = step.immediates[0]
            elif step.name == "copy":
                array[place] = others[0][0][others[0][1]]
            elif step.name == "gemm":
                (data, here), (weights, there) = others
                rows = weights[there[:-1]].astype(np.int64)
                array[place] += data[here].astype(np.int64) @ rows
            else:
                lanes, there = others[0]
                zero, low, high, rounding = step.immediates
                limits = {"zero_point": zero, "low": low, "high": high}
                array[place] = rq(array[place], *lanes[there[:-1]], **limits, rounding=rounding)


def blank(tensor: NestTensor) -> Any:
    kind = np.int64 if tensor.role == "local" else np.dtype(tensor.dtype)
    return np.zeros((*tensor.shape, LANES), kind)


def computed(operator: Operator, computation: Computation, x: Any) -> Any:
    """The output for one input, through the layout that a ProgramRegion gives tensors."""
    arrays = {tensor.name: blank(tensor) for tensor in computation.function.tensors}
    for name, value in computation.constants.items():
        arrays[name] = value.reshape(arrays[name].shape)
    found = []
    for sample in x.reshape(computation.samples, -1, x.shape[-1]):
        rows = arrays["x"].reshape(len(sample), -1)
        rows[:, : x.shape[-1]] = sample
        executed(computation, arrays)
        channels = operator.output.shape[-1]
        pixels = prod(operator.output.shape[:-1]) // computation.samples
        found.append(arrays["out"].reshape(pixels, -1)[:, :channels])
    return np.stack(found).reshape(operator.output.shape)


@pytest.mark.parametrize("kind", ["conv2d", "dense"])
def test_nests_are_the_definition(kind: str) -> None:
    taken = 0
    for seed in range(times(12, 100)):
        graph = OPERATORS[kind](np.random.default_rng(seed))
        (operator,) = graph.operators
        assert isinstance(operator, Conv2D | Dense)
        computation = COMPUTATIONS[kind](operator, LANES)
        if isinstance(computation, Refusal):
            continue
        taken += 1
        x = np.random.default_rng(seed).integers(-128, 128, operator.input.shape).astype(np.int8)
        (want,) = run(graph, [x])
        np.testing.assert_array_equal(computed(operator, computation, x), want)
    assert taken > 2


def test_what_has_no_computation_is_said() -> None:
    (conv,) = OPERATORS["conv2d"](np.random.default_rng(0)).operators
    (dense,) = OPERATORS["dense"](np.random.default_rng(0)).operators
    assert isinstance(conv, Conv2D)
    assert isinstance(dense, Dense)
    dense = replace(dense, rounding=Rounding.SINGLE)
    assert not isinstance(COMPUTATIONS["dense"](dense, 4), Refusal)
    single = COMPUTATIONS["dense"](unproven(dense), 4)
    assert isinstance(single, Refusal)
    assert "no integer multiplier is proven to equal its scale" in single.why
    zeros = np.ones_like(conv.weight_zero_points)
    shifted = COMPUTATIONS["conv2d"](replace(conv, weight_zero_points=zeros), 4)
    assert isinstance(shifted, Refusal)
    assert shifted.why == "weights with a zero point"
