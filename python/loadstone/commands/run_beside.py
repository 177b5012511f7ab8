# SPDX-License-Identifier: Apache-2.0
"""`loadstone run --with`: the responses of two networks on one simulated device, and their bounds.

In:   the words of the command, an artifact, its samples.
Out:  outputs, counters, and of each network what a report says.
Next: run.py prints it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from loadstone.analysis.bounds import bounds_beside
from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.errors import ConfigError, DeviceError, SimulationError
from loadstone.files import JsonObject
from loadstone.numerics import Array
from loadstone.printable import one_line
from loadstone.runtime import device
from loadstone.runtime.beside import Responses, run_beside
from loadstone.runtime.counters import Totals

__all__ = ["beside_another", "responses_text"]


def beside_another(
    args: argparse.Namespace,
    artifact: Artifact,
    inputs: Sequence[Array],
    progress: Callable[[int], None] | None,
) -> tuple[list[Array], Totals, Device, Sequence[JsonObject]]:
    """Runs all samples, (samples, ...) each, while args.beside keeps the device busy. So are the
    outputs; the last are two reports."""
    if args.device.partition(":")[0] != "sim":
        raise DeviceError(
            f"--with needs a device whose time is simulated, and --device is {args.device}: use sim"
        )
    if args.threads > 1 or args.workers is not None:
        other = "--threads" if args.threads > 1 else "--workers"
        raise DeviceError(f"--with and {other}: one of them; two networks share one device")
    busy = Artifact.load(args.beside)
    found = run_beside(
        artifact, inputs, busy, lambda: device.open(args.device), progress, trust=args.trust
    )
    bounds, why = _bounds(artifact, busy, found.device, found.period)
    reports = [
        {**_answered(responses, found.device), "bound_cycles": most, **why}
        for responses, most in zip((found.own, found.other), bounds, strict=True)
    ]
    return found.outputs, found.totals, found.device, reports


def _bounds(
    artifact: Artifact, other: Artifact, config: Device, period: int
) -> tuple[tuple[int | None, int | None], JsonObject]:
    """Of both; else why there are none."""
    try:
        found = bounds_beside(artifact, other, config, period)
    except (ConfigError, SimulationError) as error:
        return (None, None), {"no_bound": str(error)}
    if None not in found:
        return found, {}
    why = (
        f"samples are released every {period} cycles, and with memory as slow as bounds assume "
        "(worst_burst_extra_cycles) their runs need more: give `loadstone bound` the periods that "
        "you mean"
    )
    return found, {"no_bound": why}


def _answered(responses: Responses, config: Device) -> JsonObject:
    """Of one network: how long it took from a release to the end of its run."""
    cycles = responses.cycles
    return {
        "model": responses.model,
        "runs": len(cycles),
        "alone_cycles": responses.alone_cycles,
        "mean_response_cycles": sum(cycles) / len(cycles),
        "worst_response_cycles": max(cycles),
        "worst_response_ms": max(cycles) / config.clock_mhz / 1000,
    }


def responses_text(reports: Sequence[JsonObject]) -> Iterator[str]:
    """A line for each."""
    for one in reports:
        most = one["bound_cycles"]
        bound = "no bound" if most is None else f"bound {most}"
        yield (
            f"{one_line(one['model'])}: {one['runs']} responses, {one['worst_response_cycles']} "
            f"cycles at most ({bound}), {one['mean_response_cycles']:.0f} on average; alone "
            f"{one['alone_cycles']}"
        )
    yield from {f"no bound: {one_line(one['no_bound'])}" for one in reports if "no_bound" in one}
