# SPDX-License-Identifier: Apache-2.0
"""The int8 networks that exist, on VTA as it is: at least 98 % of their multiply-accumulates on the
device, every element their framework's, in strict mode.

    python -m tests.bench vta        the table, with every network

`make test` takes small ones, `make test-all` all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone.commands.vectors import of_artifact
from loadstone.compiler import compile
from loadstone.vta.device.hw_config import device_names, load_config
from tests import networks_on_vta as nv
from tests import random_tflite
from tests.repeat import more


@pytest.mark.parametrize(
    "file",
    [f if known.quick else pytest.param(f, marks=more) for f, known in nv.NETWORKS.items()],
)
@pytest.mark.full
def test_a_network_runs_on_vta_as_it_is(
    file: str, shared: Path, figure: Callable[[str], None]
) -> None:
    row = nv.measure(shared, file)
    figure(nv.line(row))
    assert not row.misses(), nv.line(row)
    assert row.macs > 0


@pytest.mark.parametrize(
    "name", [name for name in device_names() if load_config(name).profile == "vta"]
)
def test_strict_mode_stops_nothing_that_is_compiled_for_a_shipped_device(
    name: str, tmp_path: Path
) -> None:
    """By each device's own bursts: the compiler cuts loads of micro-ops for them."""
    file, programs = tmp_path / "m.tflite", 0
    for seed in (2, 4, 6, 8):
        file.write_bytes(random_tflite.network(seed).model)
        artifact = compile(file, name).artifact
        for program in of_artifact(artifact, load_config(name)):
            simulator = program.simulator(program.dram_in.copy(), strict=True, timing=False)
            result = simulator.run(program.insns)
            assert result.status == "NONE", f"seed {seed}: {result.message}"
            programs += 1
    assert programs > 2


def test_what_a_network_does_not_reach_is_named() -> None:
    row = nv.Row(
        "mlpt_ad_int8.tflite",
        1000,
        900,
        (("dense", "last", "it does not fit"),),
        46_001,
        1,
        640,
        ("race",),
    )
    assert row.misses() == [
        "race",
        "on the host: last",
        "less than 98.0 % on the device",
        "1 elements differ",
        "more than 46000 cycles",
    ]
    assert "last: it does not fit" in nv.line(row)
