# SPDX-License-Identifier: Apache-2.0
"""`loadstone replay FILE|DIR ...`: run vectors on the simulator, and compare memory and cycles with
theirs.

In:   vectors: .npz files, or folders with index.json.
Out:  a line for each program and each group, or JSON; exit status 1 when a program is not exact or
      a limit is exceeded.
Next: vectors.py and docs/timing.md explain the numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loadstone.backend.plugins import described_accelerator
from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.table_sources import accelerator_of_index
from loadstone.errors import LoadstoneError
from loadstone.files import read_whole
from loadstone.simulator.replayed import GroupFigures, Replayed, figures, measured_elsewhere
from loadstone.simulator.table_vectors import is_table_folder, load_table_vectors, replay_table
from loadstone.vta.simulator.replay import replay
from loadstone.vta.simulator.rtl_replay import RtlReplay
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.simulator.trace import write_trace
from loadstone.vta.simulator.vectors import Vector, load_vectors

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone replay ../shared/vta_rtl                       all vectors of a folder
  loadstone replay conv.npz --trace conv.pftrace           where the cycles go: open it at https://ui.perfetto.dev
  loadstone replay conv.npz --check races --check init     with checks that hardware does not have
  loadstone replay ../shared/vta_rtl --device rtl          on the hardware under Verilator; rtl:NAME: as device NAME
  loadstone replay vectors --uma-backends DIR              those of a plug-in's device, on its meanings in Python
  loadstone replay vectors --uma-backends DIR --measured rtl.txt   against the cycles that a test bench counted
  loadstone replay vectors --max-error 0.5 --max-median 0  exit status 1 when cycles are further off, in percent

lat0 and lat64 are the two memory models: 64 cycles more in front of every read burst.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds paths, checks, limits, output."""
    parser.epilog = _EPILOG
    device = parser.add_argument_group("the device")
    limits = parser.add_argument_group("limits")
    results = parser.add_argument_group("results")
    parser.add_argument(
        "paths", nargs="+", metavar="FILE|DIR", help="a vector, or a folder of them with index.json"
    )
    device.add_argument(
        "--device",
        metavar="NAME",
        help="a device, its JSON file, or rtl (default: the one in index.json, else vta-pynq)",
    )
    device.add_argument(
        "--check",
        action="append",
        default=[],
        choices=("races", "init"),
        help="races: accesses that no token orders; init: reads of memory that was never written",
    )
    device.add_argument(
        "--strict",
        action="store_true",
        help="stop where real VTA hardware would compute something else",
    )
    results.add_argument(
        "--trace", type=Path, metavar="T", help="write the runs at lat0 as a Perfetto trace"
    )
    limits.add_argument(
        "--max-median",
        type=float,
        metavar="P",
        help="exit status 1 when a group's median error is above P percent",
    )
    limits.add_argument(
        "--max-error",
        type=float,
        metavar="P",
        help="exit status 1 when a program's error is above P percent",
    )
    limits.add_argument(
        "--measured",
        metavar="FILE",
        help="cycles that a test bench counted, in place of the vectors': lines NAME CYCLES [CYCLES_AT_64_MORE]",
    )
    results.add_argument("--json", action="store_true", help="as JSON")


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False)


def run(args: argparse.Namespace) -> int:
    """Replays and prints."""
    own = described_accelerator(args.plugins, args.device) if args.device else None
    tables = [own is not None or is_table_folder(Path(path)) for path in args.paths]
    if any(tables):
        if not all(tables):
            raise LoadstoneError("replay: vectors of VTA and of a plug-in: replay them apart")
        return _report(args, _on_tables(args))
    on_rtl = args.device is not None and args.device.partition(":")[0] == "rtl"
    vectors = load_vectors(args.paths, args.device.partition(":")[2] if on_rtl else args.device)
    if not vectors:
        raise LoadstoneError("no vectors: the index lists none")
    traced: list[tuple[str, Simulator]] = []
    replayed = _on_rtl(args, vectors) if on_rtl else _simulated(args, vectors, traced)
    status = _report(args, replayed)
    if args.trace:
        write_trace(args.trace, traced)
    return status


def _report(args: argparse.Namespace, replayed: Iterable[Replayed]) -> int:
    """Prints the results and the figures of groups; returns the exit status."""
    done: list[Replayed] = []
    measured = _measured(args.measured) if args.measured else None
    for each in replayed:
        one = each
        if measured is not None:
            one = replace(each, measured=measured.pop(each.name, {}))
        done.append(one)
        if not args.json:
            print(_line(one), flush=True)
    if measured:
        raise LoadstoneError(f"{args.measured}: no vector is called {next(iter(measured))!r}")
    groups = figures(done)
    if args.json:
        print(
            json_text(
                {"programs": [r.to_json() for r in done], "groups": [vars(g) for g in groups]}
            )
        )
    else:
        print("\n".join(["", _GROUP_HEADER, *map(_group_line, groups)]))
    return 0 if _passes(done, groups, args.max_median, args.max_error) else 1


def _measured(name: str) -> dict[str, Mapping[int, int]]:
    """The content of --measured."""
    try:
        text = read_whole(name).decode("utf-8")
    except UnicodeDecodeError:
        raise LoadstoneError(f"{name}: is no UTF-8 text") from None
    return dict(measured_elsewhere(text, name))


def _on_tables(args: argparse.Namespace) -> Iterator[Replayed]:
    """Replays on the meanings of a plug-in."""
    if "init" in args.check or args.strict or args.trace:
        raise LoadstoneError(
            "--check init, --strict and --trace are for VTA's instructions: leave them out"
        )
    for path in args.paths:
        vectors = load_table_vectors(
            Path(path), lambda device: accelerator_of_index(args.plugins, device, args.device)
        )
        yield from (replay_table(vector, races="races" in args.check) for vector in vectors)


def _on_rtl(args: argparse.Namespace, vectors: Sequence[Vector]) -> Iterator[Replayed]:
    """Replays on the hardware, which has no checks of its own."""
    if args.check or args.strict or args.trace:
        raise LoadstoneError(
            "--check, --strict and --trace are the simulator's: leave --device rtl out"
        )
    hardware = RtlReplay()
    return map(hardware.replay, vectors)


def _simulated(
    args: argparse.Namespace, vectors: Sequence[Vector], traced: list[tuple[str, Simulator]]
) -> Iterator[Replayed]:
    """Replays on the simulator; `traced` receives the results for --trace."""
    for vector in vectors:
        replayed, simulator = replay(
            vector,
            trace=args.trace is not None,
            races="races" in args.check,
            uninitialised="init" in args.check,
            strict=args.strict,
        )
        if args.trace:
            traced.append((vector.name, simulator))
        yield replayed


def _passes(
    done: Sequence[Replayed],
    groups: Sequence[GroupFigures],
    max_median: float | None,
    max_error: float | None,
) -> bool:
    good = all(r.exact and not r.findings for r in done)
    if max_median is not None:
        good = good and all(g.median_error <= max_median for g in groups)
    if max_error is not None:
        good = good and all(g.max_error <= max_error for g in groups)
    return good


def _line(r: Replayed) -> str:
    cells = [f"{r.name:<28}", "exact " if r.exact else "WRONG "]
    for latency, cycles in r.cycles.items():
        error = r.errors().get(latency)
        cells.append(
            f"lat{latency} {cycles:>9} cycles"
            + (" (not measured)" if error is None else f" {error:6.2f} %")
        )
    return "  ".join([*cells, r.message]).rstrip()


_GROUP_HEADER = (
    f"{'group':<12} {'lat':>4} {'programs':>9} {'exact':>6} {'cycle-exact':>12} "
    f"{'median error':>13} {'max error':>10}"
)


def _group_line(g: GroupFigures) -> str:
    head = f"{g.group or '-':<12} {g.latency:>4} {g.programs:>9} {g.exact:>6}"
    if not g.measured:
        return f"{head} {'-':>12} {'-':>13} {'-':>10}"
    return f"{head} {g.cycle_exact:>12} {g.median_error:>11.2f} % {g.max_error:>8.2f} %"
