# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_prelu.py: PRELU on int8 gives LiteRT's integers, for every input, in C; of one
slope by a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.compiler import Compiled, compile
from loadstone.errors import UnsupportedError
from tests.repeat import more
from tests.tflite_builder import Graph, run

EVERY = np.arange(-128, 128).astype(np.int8).reshape(1, 256, 1)
RNG = np.random.default_rng(29)


def same_as_litert(
    slopes: np.ndarray, grids: tuple[tuple[float, int], ...], folder: Path
) -> Compiled:
    """Every int8 by each of the slopes (C,). grids: of the input, the slopes, the output."""
    graph = Graph()
    x = graph.input((1, 256, 1, len(slopes)), np.int8, *grids[0])
    alpha = graph.constant(slopes.astype(np.int8).reshape(1, 1, -1), *grids[1])
    y = graph.tensor(x.shape, np.int8, *grids[2])
    graph.operator("PRELU", [x, alpha], [y])
    model = graph.save([y])
    (folder / "m.tflite").write_bytes(model)
    found = compile(folder / "m.tflite", "vtaq-1x16x16")
    assert not found.python_steps
    given = np.repeat(EVERY[..., None], len(slopes), axis=3)
    (got,), (wanted,) = found.run(given[None]), run(model, [given])
    np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)
    return found


def grids(seed: int) -> tuple[tuple[float, int], ...]:
    """Scales up to eight times apart, so that some results are clamped."""
    rng = np.random.default_rng(seed)
    points = [int(rng.integers(-128, 128)) for _ in range(3)]
    return tuple(zip((0.05, 0.01, 0.05 * 2.0 ** rng.uniform(-3, 3)), points, strict=True))


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=more) for n in range(1, 30))])
def test_a_slope_for_each_channel(seed: int, tmp_path: Path) -> None:
    same_as_litert(np.random.default_rng(seed).integers(-128, 128, 5), grids(seed), tmp_path)


@pytest.mark.parametrize(
    ("slope", "seed"),
    [(-100, 0), *(pytest.param(s, n, marks=more) for n, s in enumerate((-128, 0, 1, 60, 127)))],
)
def test_one_slope_is_a_table(slope: int, seed: int, tmp_path: Path) -> None:
    """Also where the file has it for every channel."""
    found = same_as_litert(np.full(3, slope), grids(seed), tmp_path)
    assert [row["kind"] for row in found.explain()] == ["lookup"]


def test_steps_that_would_all_saturate_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="nearly all of its results would saturate"):
        same_as_litert(np.arange(3), ((1.0, 0), (0.5, 0), (0.001, 0)), tmp_path)
