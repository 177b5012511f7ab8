# SPDX-License-Identifier: Apache-2.0
"""bench/ethos.py: the networks take no more cycles than the pages state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.ethos import NETWORKS, cycles

#: MobileNetV2 is compiled for half a minute.
SMALL = [name for name in NETWORKS if "mnv2" not in name]


@pytest.mark.parametrize("name", SMALL)
def test_the_second_generation_takes_what_it_is_said_to_take(shared: Path, name: str) -> None:
    assert cycles(shared / "models" / name, "vtaq2-1x16x16") <= NETWORKS[name]
