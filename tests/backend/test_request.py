# SPDX-License-Identifier: Apache-2.0
"""backend/request.py: what a compile asks for reaches its own back ends, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.backend.request import ROUNDINGS, CompileRequest
from loadstone.backend.target import resolve
from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.hosts import litert
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from tests import random_tflite, tflite_builder

#: A convolution of random_tflite whose digits lose bits, so that some outputs differ.
CONVOLUTION = 19


def test_a_target_is_asked_as_a_copy() -> None:
    target = resolve("vtaq-tiny,vta-pynq")
    near = target.asked(CompileRequest("near"))
    assert [backend.request.is_near for backend in near.backends] == [True, True]
    assert [backend.request.is_near for backend in target.backends] == [False, False]
    assert [backend.name for backend in near.backends] == [b.name for b in target.backends]
    assert near.device is target.device


def test_a_rounding_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rounding 'up' is not one of exact, near"):
        compile(tmp_path / "net.tflite", "vtaq-tiny", rounding="up")


def test_a_convolution_is_at_most_one_level_off_and_faster(tmp_path: Path) -> None:
    config = load_config("vta-pynq")
    network = random_tflite.network(CONVOLUTION)
    path = tmp_path / "net.tflite"
    path.write_bytes(network.model)
    near = compile(path, config, rounding="near")
    exact = compile(path, config)
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


def test_a_file_for_another_host_is_rounded_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(random_tflite.network(CONVOLUTION).model)
    exact, near = (
        sum(
            len(p)
            for part in litert.compile(path, "vta-pynq", name).parts
            for p in part.artifact.programs
        )
        for name in ROUNDINGS
    )
    assert near < exact
