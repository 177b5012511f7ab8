# SPDX-License-Identifier: Apache-2.0
"""quantization/texts.py: a line for each tensor or layer."""

from __future__ import annotations

from dataclasses import replace

from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.plan import make_plan
from loadstone.quantization.rounding import correct_biases, measure_moments, round_weights
from loadstone.quantization.samples import samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.texts import (
    biases_text,
    calibration_text,
    host_text,
    plan_text,
    rounded_text,
    weights_text,
)
from tests import float_models
from tests.float_models import images


def test_every_tensor_and_layer_has_a_line() -> None:
    runner = float_models.runner()
    network, samples = runner.network, samples_from(images(3), runner.network.parameters)
    calibration = calibrate(runner, samples)
    plan = make_plan(network, calibration.histograms, SCHEMES["pow2"], "minmax")
    names = [layer.name for layer in network.weighted]
    groups = set(network.groups.values())
    lines = calibration_text(network, calibration).splitlines()
    assert (lines[0], len(lines)) == ("# 3 samples", 1 + len(groups))
    assert all(" values, " in line for line in lines[1:])
    assert [line.split(":")[0] for line in weights_text(network).splitlines()] == names
    lines = plan_text(network, plan).splitlines()
    assert lines[0] == "# scheme pow2, method minmax"
    assert len(lines) == 1 + len(groups) + len(names)
    assert rounded_text(network, plan) == "# all weights are rounded to nearest\n"
    assert biases_text(network, plan) == "# no bias is changed\n"
    assert host_text(plan) == "# every layer may run on the device\n"
    moments = measure_moments(runner, samples)
    repaired = correct_biases(network, round_weights(network, plan, moments), moments)
    assert "weights not to nearest" in rounded_text(network, repaired)
    assert len(biases_text(network, repaired).splitlines()) == len(names)
    assert host_text(replace(plan, host=frozenset(names))).split() == sorted(names)
