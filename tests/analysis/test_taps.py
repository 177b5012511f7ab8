# SPDX-License-Identifier: Apache-2.0
"""analysis/taps.py: what stands in memory behind a layer, however runs are shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.compare import one_run
from loadstone.analysis.taps import meant, taps, values
from loadstone.errors import ArtifactError
from loadstone.graph.reference import run_all
from loadstone.runtime import device
from tests.compiled import golden, network
from tests.repeat import more


@pytest.mark.parametrize("name", ["vtaq-4x16x16", pytest.param("vta-pynq", marks=more)])
def test_every_layer_is_that_of_the_network(shared: Path, name: str) -> None:
    """Also with four samples in a tile, and on a device without regions; by the C runtime, and by
    the meaning of the instructions."""
    compiled = network(shared, "mlpt_ad_int8.tflite", name)
    inputs = one_run(compiled.artifact, golden(shared, "mlpt_ad_int8.tflite", 4)[0], 0)
    right = run_all(compiled.graph, inputs)
    found = taps(compiled.artifact)
    with device.open("sim") as opened:
        seen = list(values(compiled.artifact, opened, inputs, found))
        alone = [
            value for tap in found for _, value in values(compiled.artifact, opened, inputs, [tap])
        ]
        means = {tap.name: value for tap, value in meant(compiled.artifact, opened, inputs)}
    assert [tap.name for tap, _ in seen] == [tap.name for tap in found]
    compared = 0
    for (tap, value), again in zip(seen, alone, strict=True):
        np.testing.assert_array_equal(value, again)
        np.testing.assert_array_equal(value, means[tap.name].reshape(value.shape))
        if tap.name in right:
            np.testing.assert_array_equal(value.ravel(), right[tap.name].ravel())
            compared += 1
    assert compared >= len(compiled.graph.operators)


def test_an_artifact_that_says_nothing_is_refused(shared: Path) -> None:
    artifact = network(shared, "mlpt_ad_int8.tflite", "vta-pynq").artifact
    older = replace(
        artifact, tensors=tuple(replace(t, name="") for t in artifact.tensors), steps=artifact.steps
    )
    with pytest.raises(ArtifactError, match="compile it anew"):
        taps(older)
