# SPDX-License-Identifier: Apache-2.0
"""`loadstone profile MODEL.lds`: the time of every layer, its device, and its bound.

In:   an artifact; with its model file also the kinds of operators and their own multiplications;
      with a model file and a target also the estimates of other back ends for their accelerators.
Out:  a table; with --html a page, with --csv and --json files for programs, with --perfetto a trace
      of every instruction.
Next: docs/tune.md explains how to improve it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from loadstone.analysis.loaded import LoadedModel
from loadstone.analysis.names import plain_name
from loadstone.analysis.page_data import profile_page
from loadstone.analysis.report import Known, ProfileReport, profile_report
from loadstone.analysis.shared_timeline import SharedTimeline, shared_page, shared_timeline
from loadstone.analysis.tables import csv_text, profile_rows, text_table, totals_text
from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import is_builtin, load_config
from loadstone.backend.device import Device
from loadstone.commands.answers import json_text
from loadstone.commands.entry_option import add_entry, chosen_entry
from loadstone.commands.plugin_options import add_plugin_options as extend
from loadstone.commands.plugin_options import target_of
from loadstone.commands.terminal import print_table
from loadstone.errors import ConfigError, ModelError
from loadstone.files import JsonObject, write_whole
from loadstone.printable import one_line
from loadstone.runtime import device as devices
from loadstone.runtime.arrays import read_arrays
from loadstone.runtime.external_steps import trusts
from loadstone.simulator.programs import trace

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone profile model.lds                        a table: a line for each layer, and what bounds it
  loadstone profile model.lds --inputs x.npz --float float.onnx --html model.html      with the loss of each layer
  loadstone profile model.lds --html model.html      a self-contained page: timeline, roofline, memory
  loadstone profile model.lds --csv model.csv --json > model.json
  loadstone profile model.lds --perfetto model.pftrace      every instruction, for https://ui.perfetto.dev
  loadstone profile model.lds --inputs x.npz --device uio:/dev/uio0      beside what the device itself counts
  loadstone profile model.lds --network net.tflite --html model.html     with the kinds of the operators
  loadstone profile net.tflite --target vtaq-1x16x16 --html net.html     the same, compiled first
  loadstone profile kws.lds --with mnv2.lds --html shared.html     two networks on one device, by priority

Cycles of a device are simulated; steps of the host, and other accelerators, are timed on this machine unless their back end has a model.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options of its results."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "model", metavar="MODEL", help="an artifact (.lds), or with --target a model file"
    )
    results = parser.add_argument_group("results")
    results.add_argument("--html", metavar="FILE", help="write a page: one self-contained file")
    results.add_argument("--csv", metavar="FILE", help="a line for each layer")
    results.add_argument("--perfetto", metavar="FILE", help="a trace of every instruction")
    results.add_argument("--json", action="store_true", help="print the figures as JSON")
    running = parser.add_argument_group("what is profiled")
    running.add_argument(
        "--target",
        "-t",
        action="append",
        metavar="TARGET",
        help="compile the model for this target first, as `loadstone compile` does",
    )
    running.add_argument(
        "--network",
        metavar="NET",
        help="the model file that the artifact was compiled from: kinds of operators, and their own "
        "multiplications, without the lanes that only fill tiles",
    )
    running.add_argument(
        "--float",
        metavar="NET",
        help="the float model: with --inputs, how far each layer's numbers are from it on the first "
        "sample (SNR)",
    )
    running.add_argument(
        "--inputs",
        metavar="IN.npz",
        help="also run these samples, and print what the device counts",
    )
    running.add_argument(
        "--device",
        metavar="D",
        default="sim",
        help="what runs them, as of `loadstone run`; sim:FILE gives the device of an artifact "
        "other timing (default: %(default)s)",
    )
    running.add_argument(
        "--with",
        dest="beside",
        metavar="OTHER.lds",
        action="append",
        default=[],
        help="another network on the same simulated device, of lower priority than those before it: "
        "when each has the device, block by block (docs/schedule.md); may be repeated",
    )
    add_entry(running)
    running.add_argument(
        "--trust",
        action="store_true",
        help="run steps that are programs in the file, with your rights: only for files whose author you "
        "trust; files that you compiled on this machine, or without such steps, do not need it",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table or the JSON, and writes the files; 1 when the device counts other cycles."""
    if args.beside:
        return _together(args)
    artifact, device, known = _subject(args)
    trust = trusts(artifact, args.trust or args.target is not None)
    if args.float is not None:
        known = replace(known or Known(), sqnr_db=_lost(args, artifact, device, trust))
    report = profile_report(artifact, device, known, trust=trust)
    counted = _counted(args, artifact, trust) if args.inputs is not None else {}
    if args.html is not None:
        write_whole(args.html, profile_page(report, artifact))
    if args.csv is not None:
        write_whole(args.csv, csv_text(report))
    if args.perfetto is not None:
        write_whole(args.perfetto, trace(artifact, device))
    if args.json:
        print(json_text({**report.to_json(), **counted}))
    else:
        print_table(*profile_rows(report), text_table(report), totals_text(report))
        if counted:
            print(_says(counted, report))
    differs = counted and args.device.partition(":")[0] == "sim"
    return 1 if differs and counted["counted_cycles_per_run"] != report.cycles else 0


#: Options that are about one network.
_OF_ONE = ("target", "network", "float", "inputs", "csv", "perfetto", "entry")


def _together(args: argparse.Namespace) -> int:
    """Several networks on one axis of time."""
    for name in _OF_ONE:
        if getattr(args, name, None) is not None:
            raise ConfigError(f"--with and --{name}: one of them; --{name} is about one network")
    artifact, device = _artifact(args)
    artifacts = [artifact, *map(Artifact.load, args.beside)]
    trust = all(trusts(each, args.trust) for each in artifacts)
    timeline = shared_timeline(artifacts, device, trust=trust)
    if args.html is not None:
        write_whole(args.html, shared_page(timeline))
    print(json_text(timeline.to_json()) if args.json else _lines(timeline))
    return 0


def _lines(timeline: SharedTimeline) -> str:
    """A line for each network, by descending priority."""
    lines = [
        f"{'model':<28} {'blocks':>8} {'released':>12} {'response':>12} {'on the device':>14} "
        f"{'longest block':>14}"
    ]
    for run in timeline.runs:
        spent = sum(block.cycles for block in run.blocks)
        lines.append(
            f"{one_line(run.model):<28.28} {len(run.blocks):>8,} {run.released:>12,} "
            f"{run.response:>12,} {spent:>14,} {run.longest:>14,}"
        )
    about = f"cycles of {timeline.device}, {timeline.clock_mhz} a microsecond"
    return "\n".join([*lines, about])


def _subject(args: argparse.Namespace) -> tuple[Artifact, Device, Known | None]:
    """The artifact to profile, and what the compiler knows of it."""
    if args.target is not None:
        if args.network is not None:
            raise ConfigError(
                "--network names the model of an artifact: --target compiles it first"
            )
        from loadstone.compiler import compile as compile_model

        compiled = compile_model(
            args.model, target_of(args, args.target), plugins=args.plugins, as_float=True
        )
        return chosen_entry(args, compiled.artifact), compiled.device, compiled.known()
    artifact, device = _artifact(args)
    return artifact, device, None if args.network is None else _known(args, artifact, device)


def _lost(
    args: argparse.Namespace, artifact: Artifact, device: Device, trust: bool
) -> dict[str, float]:
    """The signal-to-noise ratio of each tensor, compared with the float network's, in decibels."""
    if args.inputs is None:
        raise ConfigError("--float measures what the layers lose on samples: --inputs IN.npz")
    inputs = read_arrays(args.inputs, [artifact.tensors[i] for i in artifact.inputs], "in")
    layers = LoadedModel(artifact, device, trust).compare(*inputs, against=args.float).layers
    if not any(layer.from_float for layer in layers):
        raise ModelError(
            f"--float {args.float}: no float network of which {args.model} has integers"
        )
    return {plain_name(e.tensor): e.decibels for e in layers if e.decibels is not None}


def _known(args: argparse.Namespace, artifact: Artifact, device: Device) -> Known:
    from loadstone.analysis.known import known_of_file
    from loadstone.backend.target import resolve

    _, _, name = args.device.partition(":")
    backends = resolve(name or device.name).backends if is_builtin(device) else ()
    known = known_of_file(args.network, backends)
    programs = [layer.name for program in artifact.programs for layer in program.layers]
    steps = [step.name for step in artifact.steps]
    if not {*programs, *steps} & known.kinds.keys():
        raise ModelError(f"{args.network} knows no layer of {args.model}: not the same network")
    if programs and not known.kinds.keys() & set(programs):
        raise ModelError(
            f"{args.network} knows no layer of {args.model} that a device computes: give the "
            "quantized network (loadstone compile --save-quantized), and a float one as --float"
        )
    return known


def _artifact(args: argparse.Namespace) -> tuple[Artifact, Device]:
    if Path(args.model).suffix in (".tflite", ".onnx", ".pt2"):
        raise ConfigError(
            f"{args.model}: a model is profiled for a device: name it with --target, or compile it "
            "first and profile the .lds file"
        )
    artifact = chosen_entry(args, Artifact.load(args.model))
    kind, _, name = args.device.partition(":")
    if kind == "sim" and name:
        device: Device = load_config(name)
        if device.fingerprint() != artifact.fingerprint:
            raise ConfigError(
                f"{args.model} was compiled for device {artifact.device or 'unknown'!r}, not for "
                f"{device.name!r}"
            )
        return artifact, device
    return artifact, devices.device_of_artifact(artifact)


def _counted(args: argparse.Namespace, artifact: Artifact, trust: bool) -> JsonObject:
    """Runs the samples through the C runtime, and returns the device's own counters."""
    inputs = read_arrays(args.inputs, [artifact.tensors[i] for i in artifact.inputs], "in")
    with devices.open(args.device) as opened, opened.load(artifact, trust=trust) as session:
        session.run(inputs)
        runs = max(session.totals.runs, 1)
        return {
            "counted_by": args.device,
            "counted_runs": session.totals.runs,
            "counted_cycles_per_run": session.totals.counters.cycles // runs,
        }


def _says(counted: JsonObject, report: ProfileReport) -> str:
    return (
        f"counted by {counted['counted_by']}: {counted['counted_cycles_per_run']:,} cycles a run, "
        f"over {counted['counted_runs']} run(s); simulated here: {report.cycles:,}"
    )
