# SPDX-License-Identifier: Apache-2.0
"""quantization/wide_plan.py: the integers of 16 bits, and that the file with them is what ONNX
Runtime and the compiled network make of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from loadstone import compile, quantize
from loadstone.graph import Quantization
from loadstone.quantization.plan import Plan, along, float_groups
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.wide_plan import is_wide, wide_grid, wide_groups, wide_weights
from tests.float_models import images, network, small_onnx
from tests.onnx_builder import run


def test_every_step_of_8_bits_is_one_of_16() -> None:
    for scale, zero_point in ((0.25, 0), (0.1, -128), (3e-5, 127)):
        narrow = Quantization(float(np.float32(scale)), zero_point)
        wide = wide_grid(narrow)
        steps = np.arange(-128, 128)
        levels = (steps - narrow.zero_point) * 256 + wide.zero_point
        assert levels.min() >= -(2**15)
        assert levels.max() < 2**15
        assert -(2**15) <= wide.zero_point < 2**15
        np.testing.assert_allclose(
            (levels - wide.zero_point) * wide.scale, (steps - narrow.zero_point) * narrow.scale
        )


def test_weights_are_within_half_a_step_of_each_channel() -> None:
    for layer in network().weighted:
        assert layer.weights is not None
        integers, scales = wide_weights(layer)
        assert integers.dtype == np.int16
        assert np.abs(integers).max() == 2**15 - 1
        apart = np.abs(integers * along(scales, layer) - layer.weights)
        assert np.all(apart <= 0.501 * along(scales, layer))


def test_tensors_of_the_host_alone_are_wide() -> None:
    found = network()
    last = found.weighted[-1]
    plan = Plan(SCHEMES["affine"], "minmax", {}, {}, {}, host=frozenset({last.name}))
    assert wide_groups(found, plan) == set()
    assert not is_wide(last, plan)
    plan = replace(plan, host_bits=16)
    assert wide_groups(found, plan) == float_groups(found, plan.host) != set()
    assert is_wide(last, plan)
    assert not is_wide(found.weighted[0], plan)


@pytest.mark.parametrize("scheme", ["affine", "pow2"])
def test_the_file_is_what_was_measured_and_what_runs(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadstone.quantization.mixed.GOOD_DB", 50.0)
    source, target = tmp_path / "net.onnx", tmp_path / "net.int16.onnx"
    source.write_bytes(small_onnx())
    found = quantize(source, images(8), scheme=scheme, keep_16="auto")
    assert found.report["host_bits"] == 16
    assert found.report["host_gain_db"] > 3
    found.save(target)
    model = onnx.load(target)
    assert model.opset_import[0].version == 21
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    assert {onnx.TensorProto.INT16, onnx.TensorProto.INT8} <= kinds
    samples = images(8)
    real = np.stack([run(small_onnx(), [image])[0] for image in samples])
    theirs = np.stack([run(target.read_bytes(), [image])[0] for image in samples])
    ratio = 10 * np.log10(np.sum(real**2) / np.sum((theirs - real) ** 2))
    assert ratio == pytest.approx(found.report["output_sqnr_db"][0], abs=3)
    ours = compile(target, "vtaq-1x16x16").run(samples)
    got = np.asarray(ours if isinstance(ours, np.ndarray) else next(iter(ours)))
    step = np.abs(got - theirs)[got != theirs].min(initial=1)
    assert np.abs(got - theirs).max() <= step, "float32 sums, which ONNX Runtime rounds"
    assert np.mean(got != theirs) < 0.05
