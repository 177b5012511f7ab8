# SPDX-License-Identifier: Apache-2.0
"""backend/accuracy.py: --rounding near, from the file to the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.backend.accuracy import is_near, rounding_to
from loadstone.compiler import compile
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from tests import random_tflite, tflite_builder

#: A convolution of random_tflite whose digits lose bits, so that some outputs differ.
CONVOLUTION = 19


def test_near_holds_inside_alone() -> None:
    assert not is_near()
    with rounding_to("near"):
        assert is_near()
    assert not is_near()


def test_a_convolution_is_at_most_one_level_off_and_faster(tmp_path: Path) -> None:
    config = load_config("vta-pynq")
    network = random_tflite.network(CONVOLUTION)
    path = tmp_path / "net.tflite"
    path.write_bytes(network.model)
    exact = compile(path, config)
    with rounding_to("near"):
        near = compile(path, config)
    different = 0
    for seed in range(6):
        inputs = network.draw_inputs(seed, 1)
        (want,) = tflite_builder.run(network.model, [x[0] for x in inputs])
        (same,), (got,) = exact.run(*inputs), near.run(*inputs)
        np.testing.assert_array_equal(same[0].reshape(want.shape), want)
        apart = np.abs(got[0].reshape(want.shape).astype(np.int64) - want)
        assert apart.max() <= 1
        different += np.count_nonzero(apart)
        assert np.count_nonzero(apart) * 20 < apart.size
    assert different, "nothing was near"
    (how,) = [row["how"] for row in near.explain() if row.get("how")]
    assert "requantized by GEMM, near: D2" in how
    assert "at most one level off, proven at all breakpoints of" in how
    (how,) = [row["how"] for row in exact.explain() if row.get("how")]
    assert "requantized by GEMM, exactly" in how
    assert "level off" not in how
    cycles = [sum(program_cycles(each.artifact, config)) for each in (exact, near)]
    assert cycles[1] < cycles[0]
