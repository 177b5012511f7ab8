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

from tests import networks_on_vta as nv
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
