# SPDX-License-Identifier: Apache-2.0
"""`loadstone quantize MODEL --data samples.npz -o MODEL.int8.onnx`: from a float model to int8.

In:   a float .onnx, .tflite or .pt2 file; samples in0, in1 ... with a leading axis; labels, if
      there are some.
Out:  standard QDQ ONNX; the loss of each layer, as a summary, a page or JSON.
Next: `loadstone compile MODEL.int8.onnx --target DEVICE`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadstone.commands.answers import json_text
from loadstone.errors import ConfigError, ModelError
from loadstone.files import JsonObject, check_places, unpacked_arrays, write_whole
from loadstone.frontend.reading import Reading, parse_shapes
from loadstone.numerics import Array
from loadstone.partition.cost.hosts import HOSTS, stated_host
from loadstone.quantization.accuracy import (
    host_kind,
    host_text,
    outputs_text,
    warnings_of,
    weights_text,
)
from loadstone.quantization.images import PIXELS, ImageFolder
from loadstone.quantization.progress import phase

__all__ = ["add_options", "add_reading", "arguments", "configure", "reading", "run"]

_EPILOG = """\
examples:
  loadstone quantize net.onnx --data samples.npz -o net.int8.onnx
  loadstone quantize net.tflite --data samples.npz --labels y.npz --report net.html     accuracy, and a page per layer
  loadstone quantize net.onnx --data samples.npz --scheme pow2                          for plain VTA, which then shifts
  loadstone quantize text.onnx --data samples.npz --scheme dynamic                      transformers: a scale for each token
  loadstone quantize net.onnx --data images/ --pixels imagenet                          a folder of images
  loadstone quantize net.onnx --data samples.npz --keep-float auto                      the noisiest layers stay float
  loadstone quantize net.onnx --data samples.npz --keep-16 auto                         or get 16 bits on the host
  loadstone quantize net.onnx --data samples.npz --keep-float 12.5 --host cortex-m55@160     the most sensitive, for 12.5 ms of that host

samples: arrays in0, in1 ..., or of the inputs' names, with a leading axis of samples, as numpy.savez("samples.npz",
in0=images) writes them; 32 to 256 representative ones. labels: one integer for each sample.
images: a folder of files that Pillow reads, 256 at most, each resized as a whole to the input's size; --pixels states how
training scaled a byte: 0..1, -1..1, 0..255, imagenet (minus the mean of its colours, divided by their deviation).
methods: expected (three times as many samples), minmax, percentile (99.99), mse, entropy.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    data = parser.add_argument_group("samples")
    results = parser.add_argument_group("results")
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a float .onnx, .tflite or .pt2 file; a .pt2 file that could run code is refused",
    )
    data.add_argument(
        "--data",
        metavar="SAMPLES.npz",
        required=True,
        help="samples to calibrate with, or a folder of images",
    )
    data.add_argument(
        "--labels",
        metavar="Y.npz",
        help="a class for each sample: prints accuracy before and after",
    )
    results.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="the model to write; default: the model's name with .int8.onnx",
    )
    results.add_argument(
        "--report", metavar="FILE", help="write a page (.html) or figures (.json) about every layer"
    )
    results.add_argument(
        "--sensitivity", action="store_true", help="measure every layer alone, for the report"
    )
    results.add_argument("--json", action="store_true", help="print the report as JSON")
    add_reading(parser)
    parser.add_argument(
        "--host",
        metavar="NAME@MHZ",
        help="whose cycles layers take that stay on the host (--keep-float, --keep-16): "
        f"{', '.join(HOSTS)}; without it one for each multiply-accumulate",
    )
    parser.add_argument(
        "--weights4",
        choices=("all",),
        default="",
        help="with --scheme dynamic: dense layers whose weights have 4 bits keep them, which a device with "
        "weights4 loads as they are",
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the quantizer, for `quantize` and `compile`."""
    group = parser.add_argument_group("quantization")
    group.add_argument(
        "--pixels",
        choices=tuple(PIXELS),
        help="for a folder of images: how bytes become numbers",
    )
    group.add_argument(
        "--scheme",
        default="",
        choices=("affine", "symmetric", "pow2", "dynamic"),
        help="the grid of the integers (default: affine, or what the target supports); dynamic: dense "
        "layers get a scale for each row when the network runs",
    )
    methods = ("expected", "minmax", "percentile", "mse", "entropy")
    group.add_argument(
        "--method", default="", choices=methods, help="how ranges are chosen (default: expected)"
    )
    group.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer, not one per channel",
    )
    group.add_argument(
        "--half-up",
        action="store_true",
        help="convolutions round ties up, not to even: faster on plain VTA (scheme pow2)",
    )
    group.add_argument(
        "--keep-float",
        default="",
        metavar="auto|MS",
        help="auto: layers that lose most stay float on the host, until the outputs have 25 dB of "
        "signal to noise; a number: the most sensitive ones, for so many milliseconds of --host",
    )
    group.add_argument(
        "--keep-16",
        default="",
        metavar="auto|MS",
        help="the same with int16 weights and tensors instead of float, until the outputs have 25 dB; "
        "the host computes in integers",
    )
    for repair, what in (
        ("equalize", "keep the ranges of channels"),
        ("compensate", "round weights to nearest"),
        ("correct", "keep biases"),
    ):
        group.add_argument(
            f"--no-{repair}", action="store_false", dest=repair, help=f"without this repair: {what}"
        )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How the model's file is read, for `quantize` and `compile`."""
    group = parser.add_argument_group("the model's file")
    group.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="the sizes of an input that the file leaves open; repeated for several inputs",
    )
    for name, what in (("inputs", "begins behind"), ("outputs", "ends with")):
        group.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"cut the model: the part that {what} this tensor; repeated for several",
        )


def reading(args: argparse.Namespace) -> Reading:
    """The options of the model's file."""
    return Reading(parse_shapes(args.shape), tuple(args.inputs), tuple(args.outputs))


def options(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of quantize.Options."""
    return {**_said(args), **_kept(args), "weights4": args.weights4}


def _said(args: argparse.Namespace) -> dict[str, object]:
    """Those that options give as they are."""
    names = ["scheme", "method", "half_up", "keep_float", "keep_16"]
    names += ["equalize", "compensate", "correct"]
    return {**{name: getattr(args, name) for name in names}, "per_channel": not args.per_tensor}


def _kept(args: argparse.Namespace) -> dict[str, object]:
    """What the host's time says of the layers that stay there. Raises ConfigError for a number of
    milliseconds without a host, and for what is no number."""
    host = stated_host(args.host) if args.host else None
    if host is None and args.keep_float in ("", "auto") and args.keep_16 in ("", "auto"):
        return {}
    said: dict[str, object] = {} if host is None else {"cost": host.layer_cycles, "host": str(host)}
    for name in ("keep_float", "keep_16"):
        text = getattr(args, name)
        if text in ("", "auto"):
            continue
        flag = f"--{name.replace('_', '-')} {text}"
        try:
            ms = float(text)
        except ValueError:
            ms = 0.0
        if not 0 < ms < 1e9:
            raise ConfigError(f"{flag}: it is neither auto nor a number of milliseconds above 0")
        if host is None:
            raise ConfigError(f"{flag}: milliseconds of which host? --host cortex-m55@160")
        said["host_cycles"] = host.cycles_in(ms)
        said[name] = "auto" if name == "keep_16" else ""
    return said


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments with which compile() quantizes first; none without --data."""
    from loadstone.quantization.options import Options

    if not args.data:
        if args.pixels:
            raise ModelError("--pixels is for a folder of images: name one with --data")
        given = [name for name, value in _said(args).items() if value != getattr(Options, name)]
        if given:
            raise ModelError(
                f"{given[0]} is an option of quantization, which needs samples: --data SAMPLES.npz"
            )
        return {}
    shown = {"show": sys.stderr.isatty(), "where": args.data}
    return {"samples": samples(args), "options": {**options(args), **shown}}


def run(args: argparse.Namespace) -> None:
    """Quantizes, writes, prints."""
    show = sys.stderr.isatty()
    with phase("importing TVM", show):
        from loadstone.compiler import quantize
        from loadstone.quantization.report import as_html, as_json

    output = Path(args.output) if args.output else Path(Path(args.model).stem + ".int8.onnx")
    _check_report(args.report)
    check_places((output, args.report), ModelError)
    labels = None
    if args.labels:
        arrays = unpacked_arrays(args.labels, args.labels, ModelError)
        if len(arrays) != 1:
            raise ModelError(f"{args.labels} holds {len(arrays)} arrays: one of labels is needed")
        labels = next(iter(arrays.values()))
    chosen = {**options(args), "sensitivity": args.sensitivity}
    found = quantize(
        args.model,
        samples(args),
        labels=labels,
        show=show,
        where=args.data,
        reading=reading(args),
        **chosen,
    )
    found.save(output)
    if args.report:
        title = f"Quantization of {Path(args.model).name}"
        text = (
            as_html(found.report, title)
            if Path(args.report).suffix.lower() == ".html"
            else as_json(found.report)
        )
        write_whole(args.report, text)
    print(json_text(found.report) if args.json else summary(found.report, output))


def _check_report(page: str | None) -> None:
    if page and Path(page).suffix.lower() not in (".html", ".json"):
        raise ModelError(f"--report {page}: a page ends with .html, figures with .json")


def samples(args: argparse.Namespace) -> Mapping[str, Array] | ImageFolder:
    """The samples of --data. Raises ModelError for a file without arrays, and for a folder without
    --pixels."""
    from loadstone.quantization.samples import read_samples

    if args.pixels:
        if not Path(args.data).is_dir():
            raise ModelError(f"--pixels is for a folder of images, and {args.data} is none")
        return ImageFolder(args.data, args.pixels)
    return read_samples(args.data)


def summary(report: JsonObject, output: Path) -> str:
    """A few lines of text: the result, and the layers with the largest loss."""
    worst = sorted(
        (entry for entry in report["layers"] if entry["sqnr_db"] is not None),
        key=lambda entry: entry["sqnr_db"],
    )[:5]
    lines = [
        f"{output}: {report['scheme']}, ranges by {report['method']}; {'; '.join(report['steps'])}",
        f"  signal to noise of the outputs   {outputs_text(report)}",
    ]
    if report["top1"] is not None:
        lines.append(
            f"  top-1                            {report['float_top1']:.2%} in float, "
            f"{report['top1']:.2%} quantized"
        )
    if report["host"]:
        where = f"on the host, {host_kind(report)}"
        lines.append(f"  {where:<33}{host_text(report)}")
    if worst:
        names = [f"{entry['name'][-40:]} {entry['sqnr_db']:.1f} dB" for entry in worst]
        lines.append(f"  noisiest tensors                 {'; '.join(names)}")
    if text := weights_text(report):
        lines.append(f"  weights are off by               {text}")
    lines += [f"  warning                          {text}" for text in warnings_of(report)]
    return "\n".join(lines)
