# SPDX-License-Identifier: Apache-2.0
"""prove/near.py: one level off is a proof where that is asked for, and two levels never are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile as compile_model
from loadstone.prove.functions import FIRST, FunctionKind
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.values import Values
from loadstone.prove.verdict import Status
from tests.tflite_builder import Graph

LOW, HIGH = -400, 400


def made(values: Values, tail: int, *lasts: int) -> np.ndarray:
    """Functions clamp((x + c) >> 2) of a sum, whose constants c are `lasts`; tail: a level that is
    added behind the shift."""
    kids = values.functions.sum(
        np.ones((len(lasts), 1), np.int64),
        np.full((len(lasts), 1), FIRST),
        np.array(lasts, np.int64),
        np.full(len(lasts), 2),
    )
    none = np.zeros(len(lasts), np.int64)
    kids = values.functions.sum(
        np.ones((len(lasts), 1), np.int64), kids[:, None], none + tail, none
    )
    for kind, limit in ((FunctionKind.MAX, -100), (FunctionKind.MIN, 100)):
        kids = values.functions.make(kind, np.full((len(lasts), 1), limit), kids[:, None])
    return kids


def case(tolerance: int) -> tuple[Values, np.ndarray, int]:
    """Values, a source of a sum, and the network's element of it."""
    values = Values(tolerance)
    x = values.opaque(np.full(4, -100), np.full(4, 100))
    sums = values.columns(x)[:8].astype(np.int64).sum(1, keepdims=True) % values.points.moduli
    source, _ = values.find(sums, np.array([LOW]), np.array([HIGH]), make=True)
    element = values.define(source, made(values, 0, 2))
    return values, source, int(element[0])


@pytest.mark.parametrize(
    ("tail", "last", "exact", "near"),
    [
        (0, 2, True, True),
        (0, 3, False, True),
        (0, 6, False, True),  # everywhere one level off, but for the ends
        (1, 2, False, True),
        (-1, 2, False, True),
        (0, 7, False, False),  # two levels off where the sum ends with 3
        (2, 2, False, False),
        (-1, 1, False, False),
    ],
)
def test_one_level_is_near(tail: int, last: int, exact: bool, near: bool) -> None:
    for tolerance, wanted in ((0, exact), (1, near)):
        values, source, element = case(tolerance)
        stored = int(values.stored(source, made(values, tail, last))[0])
        assert (stored == element) is wanted


def test_an_element_is_one_function() -> None:
    """A second one, even the network's own, does not take the name: it stands for one value."""
    for first, second in ((3, 2), (2, 3), (3, 4)):
        values, source, element = case(1)
        assert values.stored(source, made(values, 0, first)).tolist() == [element]
        assert values.stored(source, made(values, 0, second)).tolist() != [element]
        assert values.stored(source, made(values, 0, first)).tolist() == [element]
        values.begin()
        assert values.stored(source, made(values, 0, second)).tolist() == [element]


def test_what_follows_counts_on_a_level_more() -> None:
    """The range of an element is what the artifact has, not what the network has."""
    for tolerance in (0, 1):
        values, _, element = case(tolerance)
        low, high = (int(a[0]) for a in values.limits(np.array([element])))
        assert (low, high) == (-100 - tolerance, 100 + tolerance)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelNetwork, Path]:
    """A dense layer of many inputs, which digits that lose bits compute faster."""
    rng, graph = np.random.default_rng(3), Graph()
    x = graph.input((1, 256), np.int8, 0.05, 3)
    y = graph.tensor((1, 16), np.int8, 0.9, -7)
    weights = graph.constant(rng.integers(-127, 128, (16, 256)).astype(np.int8), 0.02, 0)
    bias = graph.constant(rng.integers(-900, 900, 16).astype(np.int32), 0.001)
    graph.operator("FULLY_CONNECTED", [x, weights, bias], [y])
    path = tmp_path_factory.mktemp("near") / "net.tflite"
    path.write_bytes(graph.save([y]))
    return read_tflite(path.read_bytes(), "net.tflite"), path


def test_artifacts_of_near_rounding(network: tuple[ModelNetwork, Path]) -> None:
    stated, path = network
    artifact = compile_model(path, "vta-pynq", rounding="near").artifact
    verdict = Proof.attempt(stated, artifact, 1)
    assert (verdict.status, verdict.tolerance) == (Status.PROVED, 1)
    assert verdict.equalities["and differ by a level"] > 0
    exact = Proof.attempt(stated, artifact)
    assert exact.status is Status.NOT_PROVED
    words = "First at FULLY_CONNECTED", "element ", "for sum ", "the device has ", "stored by"
    for word in words:
        assert word in exact.reason


def test_exact_artifacts_are_near_too(network: tuple[ModelNetwork, Path]) -> None:
    stated, path = network
    verdict = Proof.attempt(stated, compile_model(path, "vta-pynq").artifact, 1)
    assert verdict.status is Status.PROVED
    assert verdict.equalities["and differ by a level"] == 0
