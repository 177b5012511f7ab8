# SPDX-License-Identifier: Apache-2.0
"""Programs that are short enough for a device which several networks share.

In:   a network's regions; the cycles after which the device must be able to turn to another one.
Out:  a deployment in which no program of a device takes longer, as its simulator counts them.
Next: runtime/schedule.c turns to another network between programs; commands/bound.py says how long
      each then waits.

The end of a program is where a device can switch: no token is left, registers are as after a reset,
and the next program loads all that it reads. Regions cut their programs by an estimate. What they
make is timed, and where a program is longer than asked, all is made again by a lower one.

Memory begins where a burst may: how a transfer falls apart into bursts, and with it the cycles,
then does not depend on where a session's memory stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

from loadstone.artifact.deploy import Contents, Deployment
from loadstone.artifact.format import Artifact
from loadstone.artifact.lifetimes import Step
from loadstone.backend.device import Device
from loadstone.backend.region import LoweredRegion
from loadstone.errors import ConfigError
from loadstone.simulator.programs import program_runs

__all__ = ["switchable"]

#: How often programs are made anew before the limit is given up.
_TRIALS = 4
#: Of the measured excess, what the estimate is lowered by beyond it.
_MARGIN = 0.95
_BURST = "burst_boundary_bytes"


def switchable(
    make: Callable[[Contents], Deployment],
    regions: Sequence[Step],
    device: Device,
    most_cycles: int,
    contents: Contents,
) -> Deployment:
    """What `make` deploys of the regions. contents: as it was before, it is afterwards with what
    the deployment holds. Raises ConfigError for a limit that cannot be kept, naming the layer."""
    estimate = float(most_cycles)
    tried: list[tuple[int, str]] = []
    before = deepcopy(contents)
    for _ in range(_TRIALS):
        for region in regions:
            if isinstance(region, LoweredRegion):
                region.piece_cycles = int(estimate)
        trial = deepcopy(before)
        made = make(trial)
        aligned = _aligned(made.artifact, device)
        worst, layers = _longest(aligned, device)
        if worst <= most_cycles:
            contents.constants, contents.micro_ops = trial.constants, trial.micro_ops
            return replace(made, artifact=aligned)
        tried.append((worst, layers))
        estimate *= _MARGIN * most_cycles / worst
    shortest, layers = min(tried)
    raise ConfigError(
        f"compile: the device cannot switch within {most_cycles:,} cycles: {layers} works "
        f"{shortest:,} at a stretch: ask for {shortest:,} or more"
    )


def _longest(artifact: Artifact, device: Device) -> tuple[int, str]:
    """Cycles of the longest program, and what it is for."""
    runs = program_runs(artifact, device)
    if not runs:
        return 0, ""
    number = max(runs, key=lambda n: runs[n].cycles)
    (program,) = (p for n, p in artifact.numbered_programs if n == number)
    names = list(dict.fromkeys(layer.name for layer in program.layers if layer.name != "finish"))
    first = names[0] if names else program.name
    return runs[number].cycles, first if len(names) < 2 else f"{first} to {names[-1]}"


def _aligned(artifact: Artifact, device: Device) -> Artifact:
    """With regions of the device that begin where its bursts may."""
    burst = device.timing[_BURST].value if _BURST in device.timing else 1
    regions = tuple(
        replace(region, align_bytes=max(region.align_bytes, burst)) if region.on_device else region
        for region in artifact.regions
    )
    return replace(artifact, regions=regions)
