# SPDX-License-Identifier: Apache-2.0
"""`loadstone compile MODEL --target DEVICE -o model.lds`: from a model file to an artifact.

In:   a .tflite, .onnx, .pt2 or .gguf file, a device.
Out:  the artifact, or with --format a model file for a host that contains artifacts; a summary, or
      JSON; with --explain where each operator runs, and why.
Next: `loadstone run model.lds`, `loadstone inspect model.lds`, `loadstone export model.lds`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.analysis.graph_page import explain_page
from loadstone.backend.builtin import backend_for, is_builtin
from loadstone.backend.request import ROUNDINGS
from loadstone.commands import quantize
from loadstone.commands.answers import json_text
from loadstone.commands.decoder_options import add_decoder_options
from loadstone.commands.explained import explained_rows, some_names, switches_text, table
from loadstone.commands.fit import add_limits, check_fit, fit_lines, fit_report
from loadstone.commands.host_formats import ARTIFACT, add_format, compile_for_host
from loadstone.commands.plugin_options import add_plugin_options as extend
from loadstone.commands.plugin_options import target_of
from loadstone.commands.proof_options import add_prove_option, prove_compiled
from loadstone.commands.terminal import print_table
from loadstone.commands.verifying import add_verify, verified_text, verify_as_asked
from loadstone.errors import ConfigError
from loadstone.files import JsonObject, check_places, write_whole
from loadstone.partition.cost.hosts import HOSTS, stated_host
from loadstone.passes.dump import Dump
from loadstone.passes.table import PASSES
from loadstone.quantization import accuracy
from loadstone.quantization.progress import phase

if TYPE_CHECKING:
    from loadstone.compiler import Compiled

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone compile net.tflite --target vtaq-1x16x16 -o net.lds
  loadstone compile net.onnx --target vtaq-tiny --explain        a table: operator, where it runs, why, what would change it
  loadstone compile net.tflite -t vtaq-1x16x16 --explain-html net.html       the same as a graph in a page
  loadstone compile net.tflite --target my_vta_config.json --dump stages/
                                                                 every stage as a numbered text file
  loadstone compile net.tflite -t vtaq-1x16x16 --dump-after synchronize
                                                                 one pass, printed: the instructions with their tokens
  loadstone compile net.tflite -t vtaq-1x16x16 --verify          its verifier checks the result of every pass
  loadstone compile net.tflite --target vtaq-1x16x16 --json      figures for programs
  loadstone compile gru.onnx -t vtaq-1x16x16 --state h_in=h_out  the output h_out of a run is the input h_in of the next
  loadstone compile model.gguf -t vtaq-1x16x16 --shape window=1024      a language model, with room for 1,024 tokens (docs/language-models.md)
  loadstone compile net.onnx -t vtaq-1x16x16 --shape x=1,3,224,224 --outputs logits      sets an open size, and cuts the model behind `logits`
  loadstone compile float.onnx --data samples.npz -t vtaq-1x16x16    quantize and compile
  loadstone compile float.onnx --data samples.npz -t vtaq-1x16x16 --save-quantized int8.onnx      and keep the int8 model
  loadstone compile net.tflite --target vtaq-1x16x16 --partition cost --costs net.costs.json --explain
                                                                 places operators so that the whole network is fastest
  loadstone compile net.tflite -t vtaq-1x16x16 --partition cost --host cortex-m55@160
                                                                 the same for a host that is not this machine
  loadstone compile net.tflite -t vtaq-1x16x16 --format litert -o net_lds.tflite
                                                                 the same .tflite file, with artifacts for LiteRT's delegate
  loadstone compile net.onnx -t vtaq-1x16x16 --format onnx -o net_lds.onnx
                                                                 EPContext nodes for ONNX Runtime, beside the operators that no accelerator takes
  loadstone compile net.tflite -t vtaq-1x16x16 --prove proof.json      and a proof for every input (docs/proofs.md)
  loadstone compile net.tflite --uma-backends mine/ --target npu,vtaq-1x16x16 --target-npu-lanes 8
                                                                 a back end of your own before VTA; add --help-targets for its options

A model is int8 (TFLite, ONNX in QDQ or QOperator form, PyTorch quantized by PT2E) or uint8 (TFLite), or float with --data; a .gguf file is a language model, made int8 (docs/language-models.md).
An operator that the device cannot execute is no error: it stays on the host.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    target = parser.add_argument_group("where it runs")
    results = parser.add_argument_group("results")
    stages = parser.add_argument_group("stages of the compiler")
    model = parser.add_argument_group("the model")
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a .tflite, .onnx, .pt2 or .gguf file; a .pt2 file that could run code is refused",
    )
    target.add_argument(
        "--target",
        "-t",
        required=True,
        action="append",
        metavar="TARGET",
        help="an accelerator, an alias, a composite such as `vtaq-1x16x16 "
        "-clock_mhz=200,llvm`, or a JSON file (`loadstone target`); "
        "may be repeated, and each adds accelerators",
    )
    results.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="the artifact to write; default: the model's name with .lds",
    )
    results.add_argument(
        "--explain",
        action="store_true",
        help="print for each operator where it runs, and why; its cycles in all (as "
        "`loadstone profile`), and in how many of them the compute stage works (`computing`)",
    )
    results.add_argument(
        "--explain-html",
        metavar="FILE",
        help="the same as a page: the network as a graph, coloured by who runs what",
    )
    target.add_argument(
        "--partition",
        choices=("eager", "cost"),
        default="eager",
        help="eager (default): an operator goes to the first accelerator that takes it; "
        "cost: to where the network takes least",
    )
    target.add_argument(
        "--costs",
        metavar="FILE",
        help="costs for --partition cost: read if it is there, then written; the same file, "
        "the same artifact",
    )
    target.add_argument(
        "--host",
        metavar="NAME@MHZ",
        help="whose costs the host's steps have for --partition cost (and layers that --keep-float and "
        "--keep-16 leave there), by cycles for each element and multiply-accumulate: "
        f"{', '.join(HOSTS)}; without it steps are timed here, as the C that `loadstone export` writes",
    )
    stages.add_argument(
        "--dump", metavar="DIR", help="write what each pass makes as a text file into DIR"
    )
    stages.add_argument(
        "--dump-after",
        metavar="NAME",
        help="write what the pass of this name makes alone: into --dump's DIR, else print it; the passes "
        f"are {', '.join(entry.name for entry in PASSES)}",
    )
    add_verify(stages)
    add_format(results)
    results.add_argument("--json", action="store_true", help="print figures as JSON")
    target.add_argument(
        "--tuned",
        metavar="TUNED.json",
        help="use the schedules that `loadstone tune` found for this model and device",
    )
    target.add_argument(
        "--rounding",
        choices=ROUNDINGS,
        default=ROUNDINGS[0],
        help="exact (default): the framework's integers; near: on VTA as it is, at most one level "
        "off where that takes fewer cycles; on a plug-in's device with a rounding of its own, as far "
        "off as it states; --explain has the bound",
    )
    results.add_argument(
        "--require-c",
        action="store_true",
        help="refuse a model of which a step needs Python: no board could run it",
    )
    add_limits(results)
    add_prove_option(results)
    model.add_argument(
        "--float",
        action="store_true",
        help="compile a float model as it is, without --data: all of it stays on the host",
    )
    model.add_argument(
        "--data",
        metavar="SAMPLES.npz",
        help="quantize a float model with these samples first (in0, in1 ...)",
    )
    model.add_argument(
        "--save-quantized",
        metavar="FILE.onnx",
        help="with --data: write the quantized model (QDQ ONNX) as well, for `loadstone compare --against FILE.onnx`",
    )
    model.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="IN=OUT",
        help="output OUT of a run is input IN of the next one: both become memory of the session",
    )
    add_decoder_options(parser)
    quantize.add_reading(parser)
    quantize.add_options(parser)


def run(args: argparse.Namespace) -> None:
    """Compiles, writes the artifact, and prints the requested results."""
    verify_as_asked(args)
    with phase("importing TVM", bool(args.data) and sys.stderr.isatty()):
        from loadstone.compiler import compile as compile_model

    if args.format != ARTIFACT:
        compile_for_host(args)
        return
    _check_options(args)
    options = {
        **quantize.arguments(args),
        "strategy": args.partition,
        "costs": args.costs,
        "host": args.host,
    }
    compiled = compile_model(
        args.model,
        target_of(args, args.target),
        dump=Dump(args.dump, args.dump_after),
        plugins=args.plugins,
        reading=replace(
            quantize.reading(args), rotate=args.rotate, weights4="" if args.data else args.weights4
        ),
        states=_states(args.state),
        tuned=args.tuned,
        rounding=args.rounding,
        switch_cycles=args.switch_within,
        as_float=args.float,
        rows=args.rows,
        **options,
    )
    output = Path(args.output) if args.output else Path(args.model).with_suffix(".lds").name
    if args.require_c and compiled.python_steps:
        raise ConfigError(f"{args.model}: --require-c: {_in_c(compiled.report())}")
    needs = check_fit(args, compiled.artifact, not compiled.python_steps)
    if args.prove is not None:
        near = args.rounding == "near"
        prove_compiled(args.model, compiled.artifact, args.prove, near=near)
    compiled.save(output)
    if compiled.quantized is not None and args.save_quantized:
        compiled.quantized.save(args.save_quantized)
    _write_page(args.explain_html, compiled)
    _say(args, compiled, {**compiled.report(), **fit_report(needs), "artifact": str(output)})


def _check_options(args: argparse.Namespace) -> None:
    """Raises ConfigError for options that do not go together, or where nothing can be written."""
    if args.costs and args.partition != "cost":
        raise ConfigError(
            "--costs is for --partition cost: the eager partition does not look at costs"
        )
    if args.host and args.partition != "cost" and not (args.keep_float or args.keep_16):
        raise ConfigError(
            "--host is for --partition cost, --keep-float and --keep-16: nothing else looks at "
            "what the host takes"
        )
    if args.host:
        stated_host(args.host)
    if args.json and args.dump_after and not args.dump:
        raise ConfigError(
            "--dump-after prints text: with --json it needs --dump DIR to write it to"
        )
    if args.save_quantized and not args.data:
        raise ConfigError(
            "--save-quantized keeps what is quantized here, which needs samples: --data SAMPLES.npz"
        )
    if args.prove and args.data:
        raise ConfigError(
            "--prove compares with the model's file, and --data makes another one: keep that with "
            "--save-quantized FILE.onnx, and prove it (loadstone prove NET.lds FILE.onnx)"
        )
    places = [args.output, args.save_quantized, args.explain_html, args.prove]
    check_places(places, ConfigError)


def _say(args: argparse.Namespace, compiled: Compiled, report: JsonObject) -> None:
    """The report as JSON, or a table and a summary for people."""
    if args.json:
        explained = {"explain": compiled.explain()} if args.explain else {}
        print(json_text({**report, **explained}))
        return
    if args.explain:
        rows = compiled.explain()
        print_table(*explained_rows(rows), table(rows))
        print(switches_text(compiled))
    print(summary(report))
    if weights := accuracy.weights_text(report):
        print(f"  4-bit weights  off by {weights}")
    if args.verify:
        print(f"  verified       {verified_text(compiled.passes)}")
    if compiled.quantized is not None:
        for what, text in accuracy.remarks_of(compiled.quantized.report):
            print(f"  {what:<15}{text}")
    nothing = _nothing_there(compiled)
    if nothing:
        print(f"  note           {nothing}")


def _nothing_there(compiled: Compiled) -> str:
    """The remark that no layer of a quantized model runs on a device of real numbers."""
    device = compiled.device
    if not (is_builtin(device) and backend_for(device).scheme == "float"):
        return ""
    rows = compiled.explain()  # with cycles: the whole stream is simulated for them
    if any(row["macs"] and row["where"] != "host" for row in rows):
        return ""
    if not {"quantize", "dequantize"} & {row["kind"] for row in rows}:
        return ""
    return (
        f"{device.name} computes in bfloat16, and the layers of this model multiply integers: none of "
        "them goes there; compile the float model, or for a device of int8"
    )


def _states(pairs: list[str]) -> dict[str, str]:
    """Raises ConfigError for a text that is not a pair."""
    found = {}
    for pair in pairs:
        source, equals, target = pair.partition("=")
        if not (source and equals and target):
            raise ConfigError(
                f"--state {pair} is not IN=OUT: an input, and the output that feeds it"
            )
        found[source] = target
    return found


def _write_page(path: str | None, compiled: Compiled) -> None:
    if path is not None:
        rows, report = compiled.explain(), compiled.profile()
        write_whole(path, explain_page(compiled.partition.graph, rows, report))


def summary(report: JsonObject) -> str:
    """The result in a few lines of text."""
    host = report["operators_on_host"]
    memory = report["regions_bytes"]
    seconds = sum(v for k, v in report["seconds"].items() if k != "import TVM")
    accelerators = {
        name: count for name, count in report["operators_by_place"].items() if name != "host"
    }
    places = [
        f"{count} of {report['operators']} on {name}" for name, count in accelerators.items()
    ] or ["none on an accelerator"]
    return "\n".join(
        (
            f"{report['artifact']}: {report['model']} for "
            f"{', '.join(accelerators) or 'the host'}, {report['samples']} sample(s) a run",
            f"  operators      {', '.join(places)}"
            + (f"; on the host: {some_names(host)}" if host else ""),
            f"  instructions   {report['instructions']} in {report['programs']} program(s)",
            f"  constants      {memory['constants'] + memory['micro-ops']} bytes",
            f"  activations    {report['arena_bytes']} bytes; {report['arena_sum_bytes']} "
            f"unshared, {report['arena_bound_bytes']} at least",
            *_quantized(report.get("quantization")),
            *_by_cost(report.get("by_cost")),
            f"  compiled in    {seconds:.2f} s",
            *fit_lines(report),
            f"  runs in C      {_in_c(report)}",
        )
    )


def _in_c(report: JsonObject) -> str:
    """`yes`, or the number of steps for which a board needs Python."""
    steps = report["steps_in_python"]
    if not steps:
        return "yes"
    need = "1 step needs" if len(steps) == 1 else f"{len(steps)} steps need"
    return f"no: {need} Python: {some_names(steps)}"


def _quantized(quantization: JsonObject | None) -> list[str]:
    """The loss by quantizing here."""
    if quantization is None:
        return []
    count = quantization["samples"]
    where = f"kept {accuracy.host_kind(quantization)}"
    kept = [f"  {where:<15}{accuracy.host_text(quantization)}"] if quantization["host"] else []
    return [
        f"  quantized      {quantization['scheme']}, with {count} "
        f"{'sample' if count == 1 else 'samples'}; signal to noise of the outputs "
        f"{accuracy.outputs_text(quantization)}",
        *kept,
    ]


def _by_cost(choice: JsonObject | None) -> list[str]:
    """What the whole network takes in each plan, and whose time the host's is."""
    if choice is None:
        return []
    names = {"chosen": "chosen", "eager": "all on devices", "host": "all on the host"}
    plans = [
        f"{text} {choice['plans'][name]['us']:,.1f} us ({choice['plans'][name]['transfers_us']:,.1f})"
        for name, text in names.items()
    ]
    same = " = all on devices" if choice["chosen"] == "eager" else ""
    host = choice["host"]
    timed = "C timed on this machine" if host == "this machine" else f"costs of {host}"
    return [
        f"  by cost        {'; '.join(plans)}",
        f"                 {'chosen' + same + '; ' if same else ''}transfers are included, and stand in "
        f"brackets; host steps: {timed}",
    ]
