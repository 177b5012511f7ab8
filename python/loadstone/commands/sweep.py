# SPDX-License-Identifier: Apache-2.0
"""`loadstone sweep SPACE.yaml --models A B -o results.parquet`: which device is best for networks.

In:   a space of devices; model files; the workers.
Out:  a Parquet file with a row for each device and network; with --html a page; with --best the
      JSON of a device.
Next: `loadstone compile --target best.json`; docs/choose-a-device.md.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.verifying import add_verify, verify_as_asked
from loadstone.errors import ConfigError, ModelError
from loadstone.files import check_places, read_whole, unpacked_arrays, write_whole
from loadstone.numerics import Array
from loadstone.search.evaluate import SweptNetwork
from loadstone.search.plugin_device import device_file
from loadstone.search.sampling import SEARCHES
from loadstone.search.space import read_space
from loadstone.search.store import ResultStore
from loadstone.search.sweep import BEST, Sweep, SweepPlan, SweptDevice, edges, run_sweep
from loadstone.search.table import parquet_bytes
from loadstone.search.workers import Pool, open_pool, workers_of

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone sweep space.yaml --models a.tflite b.tflite -o results.parquet       every point of the space
  loadstone sweep space.yaml --models a.tflite -o r.parquet --search pareto --points 200 --html r.html
  loadstone sweep space.yaml --models a.tflite -o r.parquet --best energy --best-device best.json
  loadstone sweep space.yaml --models a.tflite -o r.parquet --workers tcp://10.0.0.1:8786      a Dask cluster
  loadstone sweep space.yaml --models a.tflite --data a.npz -o r.parquet         accuracy, too: arrays in0 ... and labels
  loadstone sweep dims.yaml --models a.tflite --uma-backends mine/ -o r.parquet      base: a plug-in; device: its attributes

space.yaml: base: a device; device: keys of its file, each with values; options: of compile; assumptions: constants of energy,
area and clock, among them node_nm (65, 45, 32, 20, 16, 14, 10, 7) and clock_limit_mhz. A clock above the limit of its device is infeasible;
a bus, a port, a queue and a clock near its limit cost area and energy; a winner at the edge of its range is named.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds SPACE.yaml, the models, the options of the search, and those of its results."""
    parser.epilog = _EPILOG
    add_verify(parser)
    parser.add_argument("space", metavar="SPACE.yaml", help="what varies, and over which values")
    parser.add_argument(
        "--models", metavar="MODEL", nargs="+", required=True, help="model files: int8 networks"
    )
    parser.add_argument(
        "--data",
        metavar="FILE.npz",
        nargs="+",
        default=[],
        help="for each model, samples in0 ... and labels: counts correct answers on every device",
    )
    parser.add_argument(
        "-o", "--output", metavar="R.parquet", required=True, help="a row for each unit"
    )
    parser.add_argument("--html", metavar="FILE", help="a page: Pareto front, layers, devices")
    parser.add_argument(
        "--profiles", metavar="FOLDER", help="`profile` pages of the front, linked from --html"
    )
    parser.add_argument("--best", choices=BEST, help="name the best device by this measure")
    parser.add_argument("--best-device", metavar="FILE.json", help="write its file (with --best)")
    how = parser.add_argument_group("the search")
    how.add_argument(
        "--search", choices=SEARCHES, default="grid", help="(default: %(default)s, every point)"
    )
    how.add_argument(
        "--points",
        metavar="N",
        type=int,
        help="the number of devices that random or pareto tries (100)",
    )
    how.add_argument("--seed", metavar="N", type=int, default=0, help="(default: %(default)s)")
    how.add_argument(
        "--workers",
        metavar="N|tcp://HOST:PORT",
        default=str(os.cpu_count() or 1),
        help="processes of this machine, or a Dask scheduler (default: %(default)s)",
    )
    how.add_argument(
        "--store",
        metavar="FILE",
        help="the store of results, written after each unit (default: beside the output)",
    )
    parser.add_argument("--json", action="store_true", help="the summary as JSON")


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends: attributes are axes of the space, not options."""
    add_plugin_options(parser, words, attributes=False)


def run(args: argparse.Namespace) -> int:
    """Sweeps; prints the number of devices, and the best one."""
    verify_as_asked(args)
    workers = workers_of(args.workers)
    _check(args)
    space = read_space(args.space, args.plugins)
    networks = _networks(args.models, args.data)
    plan = SweepPlan(args.search, args.points or 100, args.seed)
    store = args.store or str(Path(args.output).with_suffix(".sqlite"))
    import pyarrow  # noqa: F401  said before the work, not after it

    with ResultStore(store) as known, open_pool(workers, "sweep") as pool:
        sweep = run_sweep(space, networks, plan, pool, known)
        write_whole(args.output, parquet_bytes(sweep))
        _write_pages(args, sweep, networks, pool)
    best = sweep.best(args.best) if args.best is not None else None
    if args.best_device is not None and best is not None:
        write_whole(args.best_device, json.dumps(device_file(best.device), indent=2) + "\n")
    print(json_text(_report(sweep, best)) if args.json else _text(args, sweep, best))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises ConfigError, before any work, for options that contradict each other."""
    if args.search == "grid" and args.points is not None:
        raise ConfigError("--points is for --search random or pareto: grid takes every point")
    if args.points is not None and not 1 <= args.points <= 1_000_000:
        raise ConfigError(f"--points {args.points} is not in [1, 1000000]")
    if not 0 <= args.seed < 1 << 32:
        raise ConfigError(f"--seed {args.seed} is not in [0, 4294967295]")
    if args.best_device is not None and args.best is None:
        raise ConfigError(f"--best-device needs --best, one of {', '.join(BEST)}")
    if args.profiles is not None and args.html is None:
        raise ConfigError("--profiles needs --html, the page that links them")
    check_places([args.output, args.html, args.best_device], ConfigError)
    if args.profiles is not None:
        Path(args.profiles).mkdir(exist_ok=True)


def _write_pages(
    args: argparse.Namespace, sweep: Sweep, networks: list[SweptNetwork], pool: Pool
) -> None:
    if args.html is None:
        return
    from loadstone.search.sweep_page import sweep_page
    from loadstone.search.sweep_profiles import write_profiles

    files = {}
    if args.profiles is not None:
        place = os.path.relpath(args.profiles, Path(args.html).parent)
        found = write_profiles(sweep, networks, pool, args.profiles)
        files = {key: Path(place, file).as_posix() for key, file in found.items()}
    write_whole(args.html, sweep_page(sweep, files))


def _networks(models: list[str], data: list[str]) -> list[SweptNetwork]:
    if data and len(data) != len(models):
        raise ConfigError(
            f"--data names {len(data)} file(s) for {len(models)} models: one for each, in order"
        )
    networks = []
    for k, model in enumerate(models):
        path = Path(model)
        given = _samples(data[k]) if data else ((), None)
        networks.append(SweptNetwork(path.stem, path.suffix, read_whole(path), *given))
    names = [network.name for network in networks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"--models: two files are called {twice!r}: a row names its model so")
    return networks


def _samples(file: str) -> tuple[tuple[Array, ...], Array]:
    """The arrays in0, in1, ... and a label for each sample."""
    arrays = unpacked_arrays(file, file, ModelError)
    if "labels" not in arrays or "in0" not in arrays:
        raise ModelError(f"{file}: needs arrays in0 ... and labels, to count with")
    labels = arrays["labels"].reshape(-1)
    if labels.dtype.kind not in "iu" or np.any(labels < 0):
        raise ModelError(f"{file}: labels of type {labels.dtype}: the number of a class, from 0 on")
    samples = tuple(arrays[f"in{k}"] for k in range(len(arrays)) if f"in{k}" in arrays)
    for k, array in enumerate(samples):
        if len(np.atleast_1d(array)) != len(labels):
            raise ModelError(
                f"{file}: in{k} has {len(np.atleast_1d(array))} sample(s), labels {len(labels)}: "
                "one label for each sample"
            )
    return samples, labels


def _report(sweep: Sweep, best: SweptDevice | None) -> dict[str, object]:
    able = [candidate for candidate in sweep.candidates if candidate.feasible]
    units = len(sweep.candidates) * len(sweep.networks)
    return {
        "devices": len(sweep.candidates),
        "feasible": len(able),
        "networks": list(sweep.networks),
        "units": units,
        "computed": sweep.computed,
        "known": units - sweep.computed,
        "front": [candidate.name for candidate in sweep.front()],
        "best": None if best is None else {"device": best.name, **dict(best.settings)},
        "edges": [] if best is None else edges(sweep.space, best),
    }


def _text(args: argparse.Namespace, sweep: Sweep, best: SweptDevice | None) -> str:
    report = _report(sweep, None)
    lines = [
        f"{args.output}: {report['devices']} devices, {report['feasible']} of them run all of "
        f"{len(sweep.networks)} network(s); {report['computed']} units computed, "
        f"{report['known']} known",
        f"  Pareto front   {len(sweep.front())} devices (time, energy, area)",
    ]
    if best is not None:
        said = ", ".join(f"{name}={value}" for name, value in best.settings.items())
        lines += [
            f"  best {args.best:<9} {best.name}: {best.us:.1f} us, {best.energy_uj:.1f} uJ, "
            f"{best.area_mm2:.2f} mm2",
            f"                 {said}",
            *(f"  warning        {line}" for line in edges(sweep.space, best)),
        ]
    return "\n".join(lines)
