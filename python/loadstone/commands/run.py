# SPDX-License-Identifier: Apache-2.0
"""`loadstone run MODEL.lds --inputs in.npz`: run a compiled model on a device, and compare its
outputs with expected ones.

In:   an artifact; a .npz file of inputs with a leading axis of samples; a device.
Out:  a .npz file of outputs; differences; samples per second, cycles. Exit status 1 when outputs
      differ by more than --atol.
Next: a person, or CI.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.device import Device
from loadstone.commands.answers import json_text
from loadstone.commands.entry_option import add_entry, chosen_entry
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.proof_options import add_require_option, loaded
from loadstone.commands.run_beside import beside_another, responses_text
from loadstone.errors import DeviceError, ModelError
from loadstone.files import JsonObject, check_places
from loadstone.numerics import Array
from loadstone.printable import one_line
from loadstone.runtime import device
from loadstone.runtime.arrays import (
    Difference,
    check_numbers,
    compare,
    read_arrays,
    read_inputs,
    write_arrays,
)
from loadstone.runtime.device import Totals
from loadstone.runtime.external_steps import trusts
from loadstone.runtime.parallel import run_in_threads
from loadstone.runtime.served import is_served, run_served
from loadstone.runtime.step_time import StepTimes
from loadstone.vta.device.hw_config import configuration
from loadstone.vta.device.hw_config import load_config as vta_config

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone run model.lds --inputs x.npz -o y.npz             outputs of every sample
  loadstone run model.lds --inputs g.npz --expect g.npz       exit status 1 when an element differs
  loadstone run model.lds --inputs g.npz --expect g.npz --atol 1
  loadstone run model.lds --inputs x.npz --threads 2          two simulated devices, for whole data sets
  loadstone run model.lds --inputs x.npz --workers tcp://10.0.0.1:8786      a Dask cluster (docs/choose-a-device.md)
  loadstone run kws.lds --inputs x.npz --with mnv2.lds        while another network keeps the device busy (docs/schedule.md)
  loadstone run model.lds --inputs x.npz --device null        the host's own time
  loadstone run model.lds --inputs x.npz --device uio:/dev/uio0
  loadstone run model.lds --inputs x.npz --device sim:mine.json
  loadstone run model.lds --inputs x.npz --device rtl
  loadstone run theirs.lds --inputs x.npz --trust             a file from elsewhere with steps that are programs
  loadstone run model.lds --inputs x.npz --require-proof proof.json     only what is proved (docs/proofs.md)
  loadstone run model.lds --inputs x.npz --uma-backends mine/     the functions of your own back ends

devices: sim (as compiled for), sim:NAME or sim:FILE, simd:SOCKET, served:SOCKET (`loadstone serve`), rtl (as compiled for) or rtl:NAME (the hardware under Verilator), null, uio:PATH[,UDMABUF], devmem:ADDRESS+BYTES
arrays: in0, in1 ... (or the tensors' names) and out0, out1 ..., each with a leading axis of samples
"""
_BAR_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    data = parser.add_argument_group("arrays")
    where = parser.add_argument_group("where it runs")
    results = parser.add_argument_group("results")
    parser.add_argument("model", metavar="MODEL.lds", help="an artifact")
    data.add_argument("--inputs", metavar="IN.npz", help="arrays in0, in1 ...")
    data.add_argument("-o", "--output", metavar="OUT.npz", help="where to write out0, out1 ...")
    data.add_argument(
        "--expect", metavar="GOLDEN.npz", help="arrays out0, out1 ... to compare with"
    )
    data.add_argument(
        "--atol",
        metavar="N",
        type=float,
        default=0.0,
        help="largest difference that passes (default: %(default)g)",
    )
    data.add_argument(
        "--allow-nan",
        action="store_true",
        help="accept NaN in the inputs, which is otherwise refused",
    )
    where.add_argument(
        "--device",
        metavar="D",
        default="sim",
        help="the device that runs it (default: %(default)s)",
    )
    where.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=1,
        help="simulate N devices side by side (default: 1)",
    )
    where.add_argument(
        "--workers",
        metavar="N|tcp://HOST:PORT",
        help="shares of the samples on N processes, or on those of a Dask scheduler",
    )
    where.add_argument(
        "--with",
        dest="beside",
        metavar="OTHER.lds",
        help="another network of lower priority, which keeps the simulated device busy meanwhile: responses of both",
    )
    where.add_argument(
        "--trust",
        action="store_true",
        help="run steps that are programs in the file, with your rights: only for files whose author you "
        "trust; files that you compiled on this machine, or without such steps, do not need it",
    )
    add_require_option(where)
    add_entry(where)
    results.add_argument("--json", action="store_true", help="the report as JSON")


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends; installed back ends are looked up by the session that needs one."""
    add_plugin_options(parser, words, attributes=False, installed=False)


def run(args: argparse.Namespace) -> int:
    """Runs all samples; 1 when the outputs differ from the expected ones."""
    artifact = chosen_entry(args, loaded(args))
    inputs, wanted = _arrays(args, artifact)
    if args.threads > 1 and not device.is_private(args.device):
        raise DeviceError(
            f"--threads {args.threads} needs a device for each thread; {args.device} is only "
            "one: use sim"
        )
    if not args.atol >= 0:
        raise ModelError(f"--atol {args.atol:g} is below 0: no difference is that small")
    check_places([args.output], ModelError)
    begin = time.perf_counter()
    outputs, totals, config, responses = _outputs(args, artifact, inputs)
    seconds = time.perf_counter() - begin
    if args.output is not None:
        write_arrays(args.output, outputs, "out")
    differences = [
        compare(f"out{k}", y, w[: len(y)])
        for k, (y, w) in enumerate(zip(outputs, wanted, strict=False))
    ]
    report: JsonObject = {
        "model": artifact.name,
        "device": args.device,
        "config": config.name,
        "devices": artifact.names_at_work(config.name),
        "samples": len(outputs[0]) if outputs else 0,
        "seconds": seconds,
        "samples_per_run": artifact.samples,
        **_counted(totals, config, _host_ms(artifact, config), _described(args.device, artifact)),
        "differences": [vars(d) for d in differences],
        "passed": all(d.largest <= args.atol for d in differences),
        **({"responses": responses} if responses else {}),
    }
    report["all_devices_ms_per_run"] -= _saved_ms(args.device, artifact, config)
    print(json_text(report) if args.json else _text(report, differences, args.atol))
    return 0 if report["passed"] else 1


def _arrays(args: argparse.Namespace, artifact: Artifact) -> tuple[list[Array], list[Array]]:
    """The inputs, and the expected outputs."""
    inputs = read_inputs(args.inputs, artifact)
    wanted = []
    if args.expect is not None:
        outputs = [artifact.tensors[i] for i in artifact.outputs]
        wanted = read_arrays(args.expect, outputs, "out")
    if not args.allow_nan:
        check_numbers(inputs, [artifact.tensors[i] for i in artifact.inputs])
    return inputs, wanted


def _outputs(
    args: argparse.Namespace, artifact: Artifact, inputs: Sequence[Array]
) -> tuple[list[Array], Totals, Device, Sequence[JsonObject]]:
    """The outputs of all samples, computed by threads of this process or by workers, or beside
    another network; of the last the responses of both."""
    progress = _bar(len(inputs[0]) if inputs else 1)
    if args.beside is not None:
        return beside_another(args, artifact, inputs, progress)
    if args.workers is not None:
        if args.threads > 1 or args.uma_backends:
            other = "--threads" if args.threads > 1 else "--uma-backends"
            raise DeviceError(f"--workers and {other}: one of them; a worker has one device")
        from loadstone.search.samples import Runner, run_in_pool
        from loadstone.search.workers import open_pool, workers_of

        runner = Runner(artifact.to_bytes(), args.device, trusts(artifact, args.trust))
        with open_pool(workers_of(args.workers)) as pool:
            return *run_in_pool(runner, inputs, pool, progress), ()
    if is_served(args.device):
        return *run_served(artifact, inputs, args.device, progress), ()
    with _device(args.device, artifact) as name:
        found = run_in_threads(
            artifact, inputs, lambda: device.open(name), args.threads, progress, trust=args.trust
        )
        return *found, ()


def _device(name: str, artifact: Artifact) -> AbstractContextManager[str]:
    """The device's name for device.open; `rtl` is served by this process."""
    if not name.startswith("rtl"):  # what follows takes as long to import as all the rest
        return nullcontext(name)
    from loadstone.vta.simulator.rtl_simd import rtl_name, rtl_socket

    rtl = rtl_name(name)
    if rtl is None:
        return nullcontext(name)
    found = vta_config(rtl) if rtl else configuration(device.device_of_artifact(artifact))
    return rtl_socket(found)


def _text(report: JsonObject, differences: list[Difference], atol: float) -> str:
    speed = report["samples"] / max(report["seconds"], 1e-9)
    devices = one_line(", ".join(report["devices"]))
    lines = [
        f"{one_line(report['model'])} on {report['device']} ({devices}): "
        f"{report['samples']} samples, {speed:.1f} a second"
    ]
    lines += _by_device(report)
    lines += responses_text(report.get("responses", ()))
    lines += map(str, differences)
    if differences:
        lines.append(
            ("as expected" if report["passed"] else "NOT as expected")
            + (f", within {atol:g}" if atol else "")
        )
    return "\n".join(lines)


def _host_ms(artifact: Artifact, config: Device) -> float:
    """The time of the host's steps in C on this machine, each kind measured alone, as in `loadstone
    profile`."""
    steps = [s for s in artifact.steps if isinstance(s, HostStep) and not s.function]
    times = StepTimes(artifact, config, trust=False)
    return sum(map(times.ns, steps)) / 1e6


def _described(device: str, artifact: Artifact) -> dict[str, tuple[int, float]]:
    """For simulated devices besides the artifact's own: the cycles of a run, and ms at their own
    clocks. (A run's counters are the sum over all devices.)"""
    found: dict[str, tuple[int, float]] = {}
    if not artifact.further or device.partition(":")[0] != "sim":
        return found
    from loadstone.simulator.programs import further_runs

    for run in further_runs(artifact):
        cycles, ms = found.get(run.device, (0, 0.0))
        found[run.device] = (cycles + run.cycles, ms + run.cycles / run.clock_mhz / 1000)
    return found


def _saved_ms(device: str, artifact: Artifact, config: Device) -> float:
    """What simulated devices side by side save a run."""
    beside = any(program.beside for program in artifact.programs)
    if not beside or device.partition(":")[0] != "sim":
        return 0.0
    from loadstone.simulator.programs import program_runs, saved_us

    return saved_us(artifact, program_runs(artifact, config)) / 1000


def _counted(
    totals: Totals, config: Device, host_ms: float, described: dict[str, tuple[int, float]]
) -> JsonObject:
    """Figures of one run, and of all; the time of functions and of the host's steps is that of this
    machine."""
    runs = max(totals.runs, 1)
    counters = totals.counters
    own = counters.cycles - runs * sum(cycles for cycles, _ in described.values())
    device_ms = own / config.clock_mhz / 1000
    others = {name: 1000 * seconds for name, seconds in totals.external_seconds.items()}
    if host_ms:
        others["host"] = others.get("host", 0.0) + host_ms * runs
    wall_ms = counters.device_ns / 1e6
    uncounted = counters.cycles == 0 and wall_ms > 0
    if uncounted:
        device_ms = wall_ms
    return {
        "runs": totals.runs,
        "cycles": None if uncounted else counters.cycles,
        "cycles_per_run": None if uncounted else counters.cycles // runs,
        "cycles_by_device": {
            **({config.name: own // runs} if own else {}),
            **{name: cycles for name, (cycles, _) in described.items()},
        },
        "device_ms_per_run": device_ms / runs,
        "start_to_done_ms_per_run": wall_ms / runs,
        "read_bytes_per_run": counters.read_bytes // runs,
        "write_bytes_per_run": counters.write_bytes // runs,
        "others_ms_per_run": {name: ms / runs for name, ms in others.items()},
        "described_ms_per_run": {name: ms for name, (_, ms) in described.items()},
        "all_devices_ms_per_run": (device_ms + sum(others.values())) / runs
        + sum(ms for _, ms in described.values()),
    }


def _by_device(report: JsonObject) -> list[str]:
    """The time of each device, and of all together."""
    others = report["others_ms_per_run"]
    per = (
        "a sample" if report["samples_per_run"] == 1 else f"for {report['samples_per_run']} samples"
    )
    lines = []
    cycles, described = report["cycles_by_device"], report["described_ms_per_run"]
    if report["config"] in cycles:
        lines.append(
            f"{cycles[report['config']]} cycles, {report['device_ms_per_run']:.3f} ms at the "
            f"device's clock {per}"
        )
    if report["cycles"] is None:
        lines.append(
            f"{report['start_to_done_ms_per_run']:.3f} ms {per} from start to done, measured on "
            "this machine: the device counts no cycles"
        )
    lines += [
        f"{name}: {cycles[name]} cycles, {ms:.3f} ms at its own clock {per}"
        for name, ms in described.items()
    ]
    lines += [f"{name}: {ms:.3f} ms {per}, measured on this machine" for name, ms in others.items()]
    if len(others) + len(cycles) > 1:
        total = report["all_devices_ms_per_run"]
        lines.append(f"together: {total:.3f} ms {per}, each at its own clock")
    return lines


def _bar(total: int) -> Callable[[int], None] | None:
    """A progress line on a terminal's stderr, rewritten a few times a second and cleared at the
    end."""
    if not sys.stderr.isatty():
        return None
    begin = last = time.perf_counter()

    def show(done: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if done == total:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        elif now - last >= _BAR_SECONDS:
            last = now
            filled = 30 * done // total
            speed = done / (now - begin)
            text = (
                f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{total} samples, "
                f"{speed:.1f} a second, {(total - done) / speed:.0f} s left"
            )
            print(text + "\033[K", end="", file=sys.stderr, flush=True)

    return show
