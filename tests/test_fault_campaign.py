# SPDX-License-Identifier: Apache-2.0
"""A slice of fault_campaign.py: no run is wrong with status 0, and the next one is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fault_campaign import Campaign
from tests.repeat import times


def test_no_run_with_a_fault_is_wrong(tmp_path: Path, figure: Callable[[str], None]) -> None:
    campaign = Campaign(1, tmp_path)
    campaign.go(times(20, 2000))
    figure(f"{campaign.runs} runs with random faults: {len(campaign.wrong)} wrong")
    assert not campaign.wrong
    assert len({end for _, end in campaign.ends}) >= 4
