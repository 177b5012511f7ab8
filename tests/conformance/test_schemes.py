# SPDX-License-Identifier: Apache-2.0
"""conformance/schemes.py: the cases of each scheme are what it says, and still a network that the
reference computes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.backend import Backend, Pattern, Segment
from loadstone.backend.region import ExternalRegion
from loadstone.conformance.check import CASES
from loadstone.conformance.schemes import in_scheme, per_layer, powers_of_two, symmetric
from loadstone.graph import reference
from loadstone.numerics import Rounding

KINDS = ["conv2d", "dense", "add", "average_pool2d", "concatenate", "residual", "separable"]


def quantizations(graph: g.Graph) -> Iterator[g.Quantization]:
    for operator in graph.operators:
        for tensor in (*operator.inputs, *operator.outputs):
            if tensor.quantization is not None:
                yield tensor.quantization


@pytest.mark.parametrize("kind", KINDS)
def test_each_scheme_is_what_it_says(kind: str) -> None:
    graph = CASES[kind](np.random.default_rng(7))
    for changed in (powers_of_two(graph), symmetric(graph), per_layer(graph)):
        assert [type(o) for o in changed.operators] == [type(o) for o in graph.operators]
        inputs = [np.full(t.shape, 3, np.int8) for t in changed.inputs]
        assert reference.run(changed, inputs)
    assert all(math.log2(q.scale).is_integer() for q in quantizations(powers_of_two(graph)))
    plain = symmetric(graph)
    assert {q.zero_point for q in quantizations(plain)} == {0}
    for operator in plain.operators:
        assert getattr(operator, "rounding", Rounding.FLOAT32) is Rounding.FLOAT32
        assert getattr(operator, "low", 0) in (0, -128)
    for operator in per_layer(graph).operators:
        if isinstance(operator, g.Weighted):
            assert len(set(operator.weight_scales.tolist())) == 1


class Symmetric(Backend):
    """A back end of one float32 scale for each layer."""

    name = "symmetric-npu"
    scheme = "symmetric"
    per_channel = False

    def patterns(self) -> list[Pattern]:
        return []

    def lower(self, segment: Segment) -> ExternalRegion:
        raise AssertionError("no case of these tests is lowered")


class Shifts(Symmetric):
    """A back end that only shifts."""

    name = "shifting-npu"
    scheme = "pow2"


@pytest.mark.parametrize("backend", [Symmetric(), Shifts()], ids=lambda backend: backend.scheme)
def test_nine_of_ten_cases_are_in_the_scheme_of_the_back_end(backend: Backend) -> None:
    suited = 0
    for number in range(20):
        graph = in_scheme(CASES["conv2d"](np.random.default_rng(number)), backend, number)
        operator = graph.operators[0]
        assert isinstance(operator, g.Conv2D)
        zero = {q.zero_point for q in quantizations(graph)} == {0}
        if backend.scheme == "pow2":
            assert all(math.log2(q.scale).is_integer() for q in quantizations(graph))
            zero = zero and operator.rounding is Rounding.FLOAT32
        suited += zero and len(set(operator.weight_scales.tolist())) == 1
    assert suited >= 18


def test_every_fourth_case_has_powers_of_two() -> None:
    backend = Symmetric()
    for number in (3, 7):
        graph = in_scheme(CASES["add"](np.random.default_rng(number)), backend, number)
        assert all(math.log2(q.scale).is_integer() for q in quantizations(graph))
