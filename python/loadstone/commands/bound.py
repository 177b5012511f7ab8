# SPDX-License-Identifier: Apache-2.0
"""`loadstone bound A.lds B.lds --periods 20ms,50ms`: how long each response takes at most.

In:   artifacts of one device, the first of highest priority; how often each is released.
Out:  for each the longest response, and whether all meet their deadlines; exit status 1 when not.
Next: docs/schedule.md; lds_schedule.h runs them so.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from loadstone.analysis.bounds import Bound, HostTime, SharedNetwork, blocks_of, bound
from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.builtin import device_names, load_config
from loadstone.backend.device import Device, ProgramDevice
from loadstone.commands.answers import json_text
from loadstone.commands.times import is_time, time_ns, times_ns
from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.partition.cost.hosts import HOSTS, stated_host
from loadstone.printable import one_line
from loadstone.runtime.device import device_of_artifact

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone bound kws.lds mnv2.lds --periods 20ms,50ms          the first has the highest priority
  loadstone bound kws.lds mnv2.lds --periods 20ms,50ms --deadlines 1ms,50ms --host cortex-m55@160
  loadstone bound kws.lds mnv2.lds --periods 20ms,50ms --host 100us --overhead 5us --json

Artifacts are compiled for one device, or for several that are one target ("vtaq-1x16x16 -count=2"): a network on several has all of them
for as long as its programs run side by side. With --switch-within CYCLES its programs keep the others waiting no longer than that, and take
the same wherever they stand. A period is the least time between two releases.
exit status: 0 every response is within its deadline; 1 one is not, or has no bound; 2 a user's mistake
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "models",
        metavar="MODEL.lds",
        nargs="+",
        help="artifacts of one device, the one of highest priority first",
    )
    parser.add_argument(
        "--periods",
        required=True,
        metavar="T,T",
        help="the least time between two releases of each, such as 20ms,50ms",
    )
    parser.add_argument(
        "--deadlines",
        metavar="T,T",
        help="from a release to the end of its run, at most the period (default: the period)",
    )
    parser.add_argument(
        "--host",
        metavar="NAME@MHZ|TIME",
        help="what steps of the host take: a host by name and clock "
        f"({', '.join(HOSTS)}), or the most that any of them takes, such as 50us (default: no time)",
    )
    parser.add_argument(
        "--overhead",
        metavar="TIME",
        default="0us",
        help="what the host takes to end a block and to begin the next (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """1 when a response is too long, else 0."""
    artifacts = [Artifact.load(model) for model in args.models]
    periods = times_ns(args.periods, "--periods", len(artifacts))
    deadlines = (
        periods
        if args.deadlines is None
        else times_ns(args.deadlines, "--deadlines", len(artifacts))
    )
    device = _one_device(artifacts)
    host = _host(args.host)
    overhead = _cycles(time_ns(args.overhead, "--overhead"), device, up=True)
    networks = []
    for artifact, period, deadline in zip(artifacts, periods, deadlines, strict=True):
        if deadline > period:
            raise ConfigError(
                f"--deadlines: that of {artifact.name!r} is above its period: a release comes "
                "before the run before must have ended; give at most the period"
            )
        blocks = blocks_of(artifact, device, host.time if host else None, overhead)
        networks.append(
            SharedNetwork(artifact, blocks, _cycles(period, device), _cycles(deadline, device))
        )
    found = bound(networks, _assumed(device, host, args.overhead, artifacts))
    print(json_text(_report(found, device)) if args.json else _text(found, device))
    return 0 if found.schedulable else 1


# --- what is asked --------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Host:
    said: str
    time: HostTime


def _host(text: str | None) -> _Host | None:
    if text is None:
        return None
    if is_time(text):
        most = math.ceil(time_ns(text, "--host"))
        return _Host(f"a step of the host takes {text} at most", lambda _step, _artifact: most)
    host = stated_host(text)

    def time(step: HostStep, artifact: Artifact) -> int | None:
        return host.step_ns(step, artifact)

    return _Host(f"a step of the host takes what {host} is stated to take (no bound)", time)


def _cycles(ns: Fraction, device: Device, *, up: bool = False) -> int:
    """In cycles: of what is promised, at most; of what is needed (up), at least."""
    exact = ns * device.clock_mhz / 1000
    return max(-(-exact.numerator // exact.denominator) if up else int(exact), 0 if up else 1)


def _one_device(artifacts: Sequence[Artifact]) -> Device:
    device = device_of_artifact(artifacts[0])
    for artifact in artifacts[1:]:
        if artifact.fingerprint != artifacts[0].fingerprint:
            raise ConfigError(
                f"{artifact.name!r} was compiled for {artifact.device}, {artifacts[0].name!r} for "
                f"{artifacts[0].device}: networks that share a device are compiled for one"
            )
        other = device_of_artifact(artifact)
        differs = _differs(device, other) or "clock_mhz" * (device.clock_mhz != other.clock_mhz)
        if differs:
            raise ConfigError(
                f"{artifact.name!r} was compiled for {artifact.device}, {artifacts[0].name!r} for "
                f"{artifacts[0].device}, which runs the same programs with another {differs}: "
                "compile both for the one that they share"
            )
    _check_further(artifacts)
    return device


def _differs(device: Device, other: Device) -> str:
    """In what programs of one take other cycles on the other; "": in nothing."""
    timing, others = (
        {name: constant.value for name, constant in one.timing.items()} for one in (device, other)
    )
    if timing != others:
        return "timing"
    return "bus_bits" if device.bus_bits != other.bus_bits else ""


def _check_further(artifacts: Sequence[Artifact]) -> None:
    """Devices beside the first: of one name they are one."""
    known: dict[str, tuple[Artifact, ProgramDevice]] = {}
    for artifact in artifacts:
        for said in (artifact.devices[number] for number in artifact.further):
            other, before = known.setdefault(said.name, (artifact, said))
            if said != before:
                raise ConfigError(
                    f"{artifact.name!r} was compiled for another {said.name} than {other.name!r}, such "
                    "as one with another bus: compile both for one target"
                )


def _beside(artifacts: Sequence[Artifact]) -> list[str]:
    """What is assumed of programs side by side."""
    if not any(program.beside for artifact in artifacts for program in artifact.programs):
        return []
    return [
        "programs that run side by side begin in the same cycle, and nobody else runs meanwhile"
    ]


def _places(artifacts: Sequence[Artifact], device: Device) -> list[str]:
    """What is assumed of memory that begins where bursts may not."""
    constant = device.timing.get("burst_boundary_bytes")
    names = [
        repr(artifact.name)
        for artifact in artifacts
        for burst in ([] if constant is None else [constant.value])
        if any(region.align_bytes % burst for region in artifact.regions if region.on_device)
    ]
    if not names:
        return []
    return [
        f"each LOAD and STORE of {', '.join(names)} has its own worst place in memory "
        "(--switch-within CYCLES lets memory begin where bursts do)"
    ]


def _is_tried(device: Device) -> bool:
    """Whether its timing is that of a device that is built in."""
    return any(not _differs(device, load_config(name)) for name in device_names())


def _assumed(
    device: Device, host: _Host | None, overhead: str, artifacts: Sequence[Artifact]
) -> list[str]:
    constant = device.timing.get("worst_burst_extra_cycles")
    memory = (
        []
        if constant is None
        else [
            f"memory delays a burst by {constant.value} cycles at most ({constant.source})",
            "no program takes longer at speeds of memory, or places, between those that are simulated "
            + ("(tried, not proved)" if _is_tried(device) else "(not true of every timing table)"),
        ]
    )
    return [
        f"{device.name} takes the simulator's cycles, at {device.clock_mhz} MHz",
        *memory,
        *_places(artifacts, device),
        *_beside(artifacts),
        host.said if host else "steps of the host take no time (--host)",
        f"the host takes {overhead} to end a block and begin the next (--overhead)",
        "nobody else uses the device, and no run fails: a device that hangs is waited for (hang_ns)",
    ]


# --- what is said ---------------------------------------------------------------------------------
def _us(cycles: int, device: Device) -> float:
    """Of what is needed, at least: to a nanosecond."""
    return -(-cycles * 1000 // device.clock_mhz) / 1000


def _report(found: Bound, device: Device) -> JsonObject:
    rows = []
    for place, network in enumerate(found.networks):
        response = found.responses[place]
        rows.append(
            {
                "model": network.artifact.name,
                "blocks": len(network.blocks),
                "cycles": sum(network.blocks),
                "longest_block_cycles": max(network.blocks, default=0),
                "longest_block": _longest(network),
                "period_cycles": network.period,
                "deadline_cycles": network.deadline,
                "response_cycles": response,
                "response_us": None if response is None else _us(response, device),
                "meets_deadline": found.in_time[place],
                "allowed_block_cycles": found.allowed_block(place),
            }
        )
    return {
        "device": device.name,
        "clock_mhz": device.clock_mhz,
        "schedulable": found.schedulable,
        "utilization": round(found.utilization, 6),
        "networks": rows,
        "assumed": list(found.assumed),
    }


def _longest(network: SharedNetwork) -> JsonObject | None:
    step = network.longest_step
    if step is None:
        return None
    return {"step": step.name, "host": isinstance(step, HostStep)}


#: Of the cycles of that option.
_COUNTED = ", fewer than these: it counts them without the worst delay of memory"


def _remedies(found: Bound) -> Iterator[str]:
    """For each network that waits too long for those of lower priority."""
    for place, network in enumerate(found.networks):
        most = found.allowed_block(place)
        if most is None:
            continue
        programs, steps = (
            ", ".join(
                one_line(other.artifact.name)
                for other in found.networks[place + 1 :]
                if other.longest_of(host=host) > most
            )
            for host in (False, True)
        )
        remedies = [
            *([f"compile {programs} with --switch-within CYCLES{_COUNTED}"] if programs else []),
            *([f"run longer steps of the host of {steps} elsewhere, or faster"] if steps else []),
        ]
        if remedies:
            yield (
                f"{one_line(network.artifact.name)} would be in time behind blocks of at most "
                f"{most:,} cycles: {'; '.join(remedies)}"
            )


def _text(found: Bound, device: Device) -> str:
    lines = [
        f"{'model':<28} {'cycles':>12} {'longest block':>14} {'period':>14} {'deadline':>14} "
        f"{'response':>14}"
    ]
    for place, network in enumerate(found.networks):
        response = found.responses[place]
        said = "no bound" if response is None else f"{response:,}"
        late = "" if found.in_time[place] else "  too late"
        lines.append(
            f"{one_line(network.artifact.name):<28.28} {sum(network.blocks):>12,} "
            f"{max(network.blocks, default=0):>14,} {network.period:>14,} {network.deadline:>14,} "
            f"{said:>14}{late}"
        )
    lines.append(f"cycles of {device.name}, {device.clock_mhz} a microsecond")
    for network in found.networks:
        longest = _longest(network)
        if longest is not None and longest["host"]:
            lines.append(
                f"the longest block of {one_line(network.artifact.name)} is a step of the host: "
                f"{one_line(str(longest['step']))}"
            )
    lines += _remedies(found)
    verdict = "schedulable" if found.schedulable else "not schedulable"
    lines.append(f"{verdict}: {100 * found.utilization:.1f} % of the device's time is used")
    return "\n".join([*lines, "assumed:", *(f"  {text}" for text in found.assumed)])
