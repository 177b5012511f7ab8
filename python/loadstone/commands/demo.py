# SPDX-License-Identifier: Apache-2.0
"""`loadstone demo`: the whole way, with a network that this project trained itself.

In:   demo/digits.onnx, a float network for handwritten digits, and scikit-learn's images; or
      demo/text.onnx, a transformer (demo_text.py).
Out:  accuracy, agreement with ONNX Runtime, cycles; a folder with the int8 model, the artifact and
      a timeline in HTML.
Next: the same with your own network: `loadstone quantize`, `compile`, `run`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.commands.answers import Steps, add_json_option
from loadstone.commands.demo_text import run_text
from loadstone.errors import ConfigError
from loadstone.files import write_whole
from loadstone.numerics import Array

if TYPE_CHECKING:
    from loadstone.analysis.compiled import Compiled

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone demo                             float network -> int8 -> instructions -> simulator, in some seconds
  loadstone demo text                        a transformer writes 256 symbols, in half a minute
  loadstone demo --target vtaq-tiny          on another device
  loadstone demo --scheme pow2 --target vta-pynq    on plain VTA: every scale a power of two
"""
_CALIBRATION_IMAGES = 200
#: The largest number of tokens: half a day of simulation.
MAX_TOKENS = 100_000
#: ONNX Runtime sums in float32: where a sum lies close to the boundary between two integers it may
#: round to the other one. A larger difference is an error.
_EDGES = 1e-3


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the device, the scheme and the folder."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("what is compiled")
    results = parser.add_argument_group("results")
    what.add_argument(
        "network",
        nargs="?",
        choices=("digits", "text"),
        default="digits",
        help="the sample network: one that reads digits (default), or one that writes text",
    )
    what.add_argument(
        "--target",
        "-t",
        default="vtaq-1x16x16",
        metavar="TARGET",
        help="the target to compile for (default vtaq-1x16x16)",
    )
    what.add_argument(
        "--scheme",
        choices=("affine", "pow2"),
        default="affine",
        help="how to quantize (default affine)",
    )
    results.add_argument(
        "--output",
        "-o",
        default="demo",
        metavar="DIR",
        help="the folder for the files (default demo)",
    )
    results.add_argument(
        "--tokens",
        type=int,
        default=256,
        metavar="N",
        help="the number of symbols that `text` writes (default 256)",
    )
    add_json_option(results)


def run(args: argparse.Namespace) -> int:
    """Prints one line per step; 1 when the simulator's results differ from ONNX Runtime's."""
    if not 1 <= args.tokens <= MAX_TOKENS:
        raise ConfigError(f"demo: --tokens {args.tokens} is not in [1, {MAX_TOKENS}]")
    if args.network == "text":
        return run_text(Path(args.output), args.target, args.scheme, args.tokens, Steps(args))
    from loadstone.compiler import compile as compile_model
    from loadstone.compiler import quantize
    from loadstone.demo import load_digits, network_path

    digits = load_digits()
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    images = digits.test_images[:, None]
    right = _accuracy(_onnx_runtime(network_path(), images), digits.test_labels)
    steps = Steps(args)
    steps.done("network", f"{network_path().name}, float: {right} of {len(images)} images")

    start = time.perf_counter()
    quantized = quantize(
        network_path(), digits.train_images[:_CALIBRATION_IMAGES, None], scheme=args.scheme
    )
    model = folder / "digits.int8.onnx"
    quantized.save(model)
    steps.done(
        "quantized",
        f"{args.scheme}, with {_CALIBRATION_IMAGES} images: {model} "
        f"({time.perf_counter() - start:.1f} s)",
    )

    compiled = replace(compile_model(model, args.target), quantized=quantized)
    artifact = folder / "digits.lds"
    compiled.save(artifact)
    report = compiled.report()
    on_device = report["operators"] - len(report["operators_on_host"])
    steps.done(
        "compiled",
        f"{artifact}: {report['instructions']} instructions for {report['device']}, "
        f"{on_device} of {report['operators']} operators on the device "
        f"({sum(report['seconds'].values()):.1f} s)",
    )

    start = time.perf_counter()
    (scores,) = compiled.run(images)
    seconds = time.perf_counter() - start
    steps.done(
        "simulated",
        f"{len(images)} images in {seconds:.1f} s, through the C runtime: "
        f"{_accuracy(scores, digits.test_labels)}",
    )
    equal, note = _compare(scores, _onnx_runtime(model, images))
    steps.done("compared", note)
    steps.done("timeline", _timeline(compiled, folder / "timeline.html"))
    return steps.end(equal)


def _accuracy(scores: Array | None, labels: NDArray[np.int64]) -> str:
    if scores is None:
        return "(ONNX Runtime is not installed)"
    return f"{100 * np.mean(scores.reshape(len(labels), -1).argmax(axis=1) == labels):.2f} % right"


def _onnx_runtime(model: Path, images: NDArray[np.float32]) -> Array | None:
    """The scores of every image, without graph optimizations, which is the meaning of the file;
    None where ONNX Runtime is not installed."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: image})[0] for image in images])


def _compare(scores: Array, wanted: Array | None) -> tuple[bool, str]:
    if wanted is None:
        return (
            True,
            "ONNX Runtime is not installed: pip install onnxruntime, to compare every score",
        )
    differing = int(np.count_nonzero(scores != wanted))
    by = (
        f", by {np.abs(scores - wanted).max():.2g} at most (its sums are float32)"
        if differing
        else ""
    )
    return (
        differing <= _EDGES * scores.size,
        f"{scores.size} scores with ONNX Runtime's for the same file: {differing} differ{by}",
    )


def _timeline(compiled: Compiled, path: Path) -> str:
    """Writes the page of `loadstone profile --html`."""
    from loadstone.analysis.page_data import profile_page

    report = compiled.profile()
    layers = [layer for run in report.programs for layer in run.layers()]
    busy = sum(layer.busy_cycles["compute"] for layer in layers)
    facts = (
        f"{compiled.device.name}: {report.cycles} cycles, "
        f"{1000 * report.cycles / compiled.device.clock_mhz:.0f} ns at "
        f"{compiled.device.clock_mhz} MHz",
        f"compute works in {100 * busy / report.cycles:.0f} % of them",
    )
    write_whole(path, profile_page(report, compiled.artifact))
    return f"{path}: {'; '.join(facts)}"
