# SPDX-License-Identifier: Apache-2.0
"""analysis/compare.py: faults of many kinds are found in the layer where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.compare import (
    Expected,
    LayerDifferences,
    described,
    difference,
    differences,
    digest,
    from_tensors,
    one_run,
    read_digests,
)
from loadstone.analysis.taps import Tap
from loadstone.analysis.tokens import races
from loadstone.artifact.format import Artifact, BufferView, DataType
from loadstone.errors import ModelError
from loadstone.graph.reference import run_all
from loadstone.numerics import Array
from loadstone.runtime import device
from tests.analysis.faults import KINDS, Fault, faults
from tests.compiled import golden, network
from tests.repeat import more, times

TAP = Tap("t", "l", 0, BufferView("t", (1, 2, 2), DataType.INT8, 0, 0))


def subject(shared: Path, file: str, name: str) -> tuple[Artifact, list[Array], Expected]:
    """An artifact, one run's inputs, and every tensor of the network for them."""
    compiled = network(shared, file, name)
    inputs = one_run(compiled.artifact, golden(shared, file, 1)[0], 0)
    return compiled.artifact, inputs, from_tensors(run_all(compiled.graph, inputs))


def named(artifact: Artifact, inputs: list[Array], expected: Expected) -> set[str]:
    """The first layer that differs, as `loadstone compare` names it; else the two of which a token
    is missing; none for a sound artifact."""
    with device.open("sim") as opened:
        found = differences(artifact, opened, inputs, expected)
        layer = next((entry.layer for entry in found if entry.different), None)
    if layer is not None:
        return {layer}
    unordered = races(artifact)
    return {unordered[0].layer, unordered[0].other} if unordered else set()


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("mlpt_resnet8_int8.tflite", "vtaq-1x16x16"),
        pytest.param("mlpt_kws_int8.tflite", "vtaq-1x16x16", marks=more),
        pytest.param("mlpt_ad_int8.tflite", "vta-pynq", marks=more),
        pytest.param("mlpt_vww_int8.tflite", "vtaq-tiny", marks=more),
    ],
)
def test_the_right_layer_is_named(
    shared: Path, file: str, name: str, figure: Callable[[str], None]
) -> None:
    """Faults that change no number of any layer, on a device of any speed, are drawn again: nothing
    could find them. A missing token is one only where no chain of others stands for it."""
    artifact, inputs, expected = subject(shared, file, name)
    assert not named(artifact, inputs, expected)
    wanted, found, silent = times(5, 15), Counter[str](), 0
    wrong: list[tuple[Fault, set[str]]] = []
    for fault in faults(artifact, 1):
        layers = named(fault.artifact, inputs, expected)
        if not layers:
            silent += 1
            assert silent < 10 * wanted
            continue
        found[fault.kind] += 1
        if not layers & fault.layers:
            wrong.append((fault, layers))
        if found.total() >= wanted and set(found) == set(KINDS):
            break
    figure(f"{file}: {found.total() - len(wrong)} of {found.total()} faults named: {dict(found)}")
    assert [(f.kind, f.what, f.layers, layers) for f, layers in wrong] == []


def test_how_two_tensors_differ() -> None:
    got = np.array([[[1, 2], [3, 4]]], np.int8)
    wanted = np.array([[[1, 2], [-3, 5]]], np.int8)
    entry = difference(TAP, got, wanted)
    assert (entry.different, entry.largest, entry.first) == (2, 6, (0, 1, 0))
    assert (entry.got, entry.wanted, entry.elements) == (3, -3, 4)
    assert difference(TAP, got, got).different == 0
    with pytest.raises(ModelError, match="4 elements, and 2 where it is compared with"):
        difference(TAP, got, wanted[:, 0])


@pytest.mark.parametrize(
    ("got", "wanted", "rounding"),
    [
        ([0.25, 2.0**-33], [0.25, 2.0**-33 + 2.0**-56], True),
        ([0.25, 0.0], [0.25, 1e-39], True),
        ([0.25, 2.0**-33], [0.25, 2.0**-33 + 2.0**-52], False),
        ([0.25, 0.0], [0.25, 1e-37], False),
        ([0.25, 1.0], [0.25, np.inf], False),
        ([0.25, np.nan], [0.25, 1.0], False),
    ],
)
def test_the_rounding_of_float32(got: list[float], wanted: list[float], rounding: bool) -> None:
    """A softmax of the host is within a few units in the last place of NumPy's, element by
    element; anything more is a difference."""
    tap = Tap("t", "l", 0, BufferView("t", (1, 2), DataType.FLOAT32, 0, 0))
    entry = difference(tap, np.array([got], np.float32), np.array([wanted], np.float32))
    assert (entry.different, entry.rounding) == (1, rounding)
    found = LayerDifferences((entry,))
    assert found.equal is rounding
    assert ("all equal" in repr(found)) is rounding
    assert ("within the rounding of float32" in described(entry)) is rounding


def test_unsigned_tensors_are_as_the_device_has_them() -> None:
    value = from_tensors({"t": np.array([0, 255], np.uint8)})(TAP)
    assert value is not None
    assert value.tolist() == [-128, 127]
    assert from_tensors({"t": np.zeros(2, np.float32)})(TAP) is None


def test_digests_are_read() -> None:
    text = "noise\nloadstone digest 1 14 4 811c9dc5\nloadstone digest 2 0 10 1f\n"
    assert read_digests(text) == {(1, 14): (4, 0x811C9DC5), (2, 0): (10, 0x1F)}
    assert digest(np.zeros(0, np.int8)) == 0x811C9DC5
    assert digest(np.frombuffer(b"a", np.uint8)) == 0xE40C292C  # FNV-1a's own test vector
    with pytest.raises(ModelError, match="build the firmware with DEBUG=1"):
        read_digests("nothing")


def test_inputs_that_do_not_fit_are_named(shared: Path) -> None:
    artifact, _, _ = subject(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    with pytest.raises(ModelError, match="input 'input_1_int8' has shape"):
        one_run(artifact, [np.zeros((1, 3), np.int8)], 0)
    with pytest.raises(ModelError, match=r"--sample 7 is not in \[0, 1\]"):
        one_run(artifact, [np.zeros((2, 1, 32, 32, 3), np.int8)], 7)
