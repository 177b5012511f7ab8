# SPDX-License-Identifier: Apache-2.0
"""switching.py: no program takes longer than asked, and all of them together compute the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from loadstone.analysis.compiled import Compiled
from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.partition import switching
from loadstone.runtime import device
from loadstone.simulator.programs import layer_figures, program_cycles
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.unordered import findings
from tests.compiled import golden, network

MODEL = "mlpt_kws_int8"


def _compiled(shared: Path, name: str, cycles: int) -> Compiled:
    return compile(shared / "models" / f"{MODEL}.tflite", name, switch_cycles=cycles)


@pytest.mark.parametrize(("name", "cycles"), [("vtaq-1x16x16", 6000), ("vta-pynq", 20_000)])
def test_programs_are_as_short_as_asked_and_exact(shared: Path, name: str, cycles: int) -> None:
    made = _compiled(shared, name, cycles)
    config = load_config(name)
    spent = program_cycles(made.artifact, config)
    assert len(spent) > 5
    assert max(spent) <= cycles
    whole = program_cycles(network(shared, f"{MODEL}.tflite", name).artifact, config)
    assert sum(whole) < sum(spent) < 1.5 * sum(whole)
    assert findings(made.artifact, config) == []  # no program reads what it has not written
    inputs, outputs = golden(shared, f"{MODEL}.tflite", 2)
    with device.open(name) as opened, opened.load(made.artifact) as session:
        for got, wanted in zip(session.run(inputs), outputs, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_the_cycles_of_a_layer_are_those_of_all_its_programs(shared: Path) -> None:
    made = _compiled(shared, "vtaq-1x16x16", 6000)
    config = load_config("vtaq-1x16x16")
    spent = program_cycles(made.artifact, config)
    layers = layer_figures(made.artifact, config)
    assert sum(layer.cycles for layer in layers.values()) == sum(spent)


def test_memory_begins_where_a_burst_may(shared: Path) -> None:
    made = _compiled(shared, "vtaq-1x16x16", 6000)
    align = {region.align_bytes for region in made.artifact.regions if region.on_device}
    assert align == {load_config("vtaq-1x16x16").timing["burst_boundary_bytes"].value}


def test_what_cannot_be_kept_is_refused_with_the_least(shared: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot switch within 1,000 cycles: .* at a stretch"):
        _compiled(shared, "vtaq-1x16x16", 1000)


def test_no_program_is_shorter_than_its_fetch(shared: Path) -> None:
    with pytest.raises(ConfigError, match="within 999 cycles: ask for 1000 or more"):
        _compiled(shared, "vtaq-1x16x16", 999)


def test_the_layer_that_is_named_is_the_one_that_takes_the_least_that_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the trial whose longest program is shortest, not of the last one."""
    longest = iter([(1500, "a"), (1200, "b"), (1400, "c"), (1300, "d")])
    monkeypatch.setattr(switching, "_longest", lambda *_: next(longest))
    monkeypatch.setattr(switching, "_aligned", lambda artifact, _: artifact)
    made = cast(Any, SimpleNamespace(artifact=None))
    with pytest.raises(ConfigError, match="b works 1,200 at a stretch: ask for 1,200 or more"):
        switching.switchable(lambda _: made, [], load_config("vtaq-tiny"), 1000, made)
