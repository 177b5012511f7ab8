# SPDX-License-Identifier: Apache-2.0
"""Hold an artifact's device programs to no race, and no read of what nobody wrote.

In:   an artifact and its device.
Out:  AssertionError naming the instructions, when a program has either.
Next: every test that compiles something calls it.
"""

from __future__ import annotations

from loadstone.artifact.format import Artifact
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.simulator.unordered import findings

__all__ = ["check_races"]


def check_races(artifact: Artifact, config: HwConfig) -> None:
    """Raises AssertionError with the first findings."""
    found = [f"step {step}: {finding.text}" for step, finding in findings(artifact, config)]
    assert not found, "\n".join(found[:5])
