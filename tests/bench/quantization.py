# SPDX-License-Identifier: Apache-2.0
"""What quantization costs on real networks, beside ONNX Runtime's quantize_static: same samples,
same granularity.

In:   the float models and photographs of ../shared/models; onnxruntime.
Out:  for each network and each set of inputs the signal to noise of the outputs (decibels), ours
      and theirs; powers of two beside
      them; time and memory.
Next: a person reads the table; `run` says whether ours is at least as good everywhere.

Both get 32 crops of the photographs (tests/images.py) and int8 activations per tensor, int8 weights
per channel. Ours is compiled and runs on the simulator, through the C runtime; theirs runs on ONNX
Runtime without optimizations. Reference: the float golden outputs of the folder (their inputs are
noise, for most: far from any photograph), and the float network on other crops.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from tests import images
from tests.bench.large import yolov8n
from tests.conftest import SHARED
from tests.images import FloatModel

__all__ = ["Row", "measure", "run", "run_onnx", "signal_to_noise", "theirs"]

SAMPLES, TESTED = 32, 24
#: Also quantized for VTA as it is, which shifts but does not multiply.
POW2 = (
    "mlpt_resnet8_f32.tflite",
    "mlpt_vww_f32.tflite",
    "mlpt_ad_f32.tflite",
    "mnist8_f32.onnx",
    "mnv1_0.25_128_f32.tflite",
)
#: Opset from which quantize_static can quantize weights per channel.
PER_CHANNEL_OPSET = 13
#: The limit of the issue for squeezenet with 64 samples.
SECONDS, GIBIBYTES = 120, 2.0

Outputs = list[list[NDArray[Any]]]


def signal_to_noise(exact: Outputs, found: Outputs) -> list[float]:
    """Decibels of each output, over all samples."""
    ratios = []
    for x, y in zip(zip(*exact, strict=True), zip(*found, strict=True), strict=True):
        signal, noise = np.stack(x).astype(np.float64), np.stack(x).astype(np.float64) - np.stack(y)
        ratios.append(float(10 * np.log10((signal**2).sum() / max((noise**2).sum(), 1e-30))))
    return ratios


def run_onnx(model: bytes | str, samples: Sequence[NDArray[Any]]) -> Outputs:
    """Every sample, without optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return [session.run(None, {name: sample}) for sample in samples]


def theirs(model: Path, samples: NDArray[Any], folder: Path) -> Path:
    """The model by onnxruntime.quantization.quantize_static."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            self.items: Iterator[dict[str, NDArray[Any]]] = iter(
                [{name: sample} for sample in samples]
            )

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self.items, None)

    prepared, quantized = folder / "prepared.onnx", folder / "theirs.onnx"
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    reader = Reader(onnx.load(str(prepared)).graph.input[0].name)
    options = {
        "per_channel": True,
        "activation_type": QuantType.QInt8,
        "weight_type": QuantType.QInt8,
    }
    quantize_static(str(prepared), str(quantized), reader, quant_format=QuantFormat.QDQ, **options)
    return quantized


@dataclass(frozen=True)
class Row:
    """Decibels of each output: ours, theirs, and ours with powers of two on VTA, where that was
    asked for."""

    inputs: str
    ours: list[float]
    theirs: list[float]
    pow2: list[float]

    @property
    def better(self) -> bool:
        """Whether ours is at least as good."""
        return all(x >= y for x, y in zip(self.ours, self.theirs, strict=True))

    def __str__(self) -> str:
        columns = (
            " / ".join(f"{value:.2f}" for value in values)
            for values in (self.ours, self.theirs, self.pow2)
        )
        return (
            f"{self.inputs:<12}"
            + "".join(f"{text:>18}" for text in columns)
            + ("" if self.better else "  worse")
        )


def measure(model: FloatModel, shared: Path, folder: Path) -> list[Row]:
    """One row for each set of inputs."""
    from loadstone.compiler import compile as compile_model
    from loadstone.frontend import load
    from loadstone.quantization.export_onnx import export_onnx
    from loadstone.quantization.options import Options
    from loadstone.quantization.pipeline import prepare, quantize_prepared

    path = shared / "models" / model.file
    samples = images.prepare(model, shared, SAMPLES)
    prepared = prepare(load(path))
    found = quantize_prepared(prepared, samples)
    compiled = [compile_model(found.module, "vtaq-1x16x16")]
    if model.file in POW2:
        compiled.append(
            compile_model(
                quantize_prepared(prepared, samples, Options(scheme="pow2")).module, "vta-pynq"
            )
        )
    exact = folder / "float.onnx"
    onnx.save(export_onnx(found.float_module, found.outputs), str(exact))
    plain = (
        path
        if model.file.endswith(".onnx")
        and onnx.load(str(path)).opset_import[0].version >= PER_CHANNEL_OPSET
        else exact
    )
    other = str(theirs(plain, samples, folder))

    golden = shared / "models" / "golden"
    photographs = images.prepare(model, shared, TESTED, seed=1)
    sets = {
        "photographs": (photographs, run_onnx(str(exact), photographs)),
        "golden": stored(golden / f"{model.file}.npz"),
    }
    if (golden / f"{model.file}.real.npz").exists():
        sets["real"] = stored(golden / f"{model.file}.real.npz")
    rows = []
    for name, (inputs, wanted) in sets.items():
        ratios = [
            signal_to_noise(wanted, list(map(list, zip(*entry.run(inputs), strict=True))))
            for entry in compiled
        ]
        rows.append(
            Row(
                name,
                ratios[0],
                signal_to_noise(wanted, run_onnx(other, inputs)),
                ratios[1] if len(ratios) > 1 else [],
            )
        )
    return rows


def stored(path: Path) -> tuple[NDArray[Any], Outputs]:
    """Inputs and outputs of a golden file."""
    with np.load(path) as file:
        outputs = [
            file[f"out{index}"]
            for index in range(sum(name.startswith("out") for name in file.files))
        ]
        return file["in0"], list(map(list, zip(*outputs, strict=True)))


def run(names: Sequence[str] = ()) -> bool:
    """Prints the table, then the time and memory of squeezenet with 64 samples. names: the
    beginnings of the networks to measure."""
    if not SHARED.is_dir():
        print(f"{SHARED} is absent: nothing to quantize")
        return True
    held = True
    print(
        f"{'network':<26}{'inputs':<12}{'Loadstone':>18}{'quantize_static':>18}"
        f"{'pow2, vta-pynq':>18} "
        " signal to noise in dB"
    )
    for model in images.MODELS:
        if not names or model.file.startswith(tuple(names)):
            with tempfile.TemporaryDirectory() as folder:
                for row in measure(model, SHARED, Path(folder)):
                    held &= row.better
                    print(f"{model.file:<26}{row}", flush=True)
    if not names or "yolov8n".startswith(tuple(names)):
        row = detector()
        held &= row.better
        print(f"{'yolov8n, made here':<26}{row}", flush=True)
    return (bool(names) or (digits() and cost())) and held


def detector() -> Row:
    """YOLOv8n without its decoder at 160 x 160, random weights whose tensors stay as large as they
    were; eight samples of noise, four others. Ours as it is exported, on ONNX Runtime as theirs."""
    from loadstone.frontend import load
    from loadstone.quantization.export_onnx import export_onnx
    from loadstone.quantization.pipeline import prepare, quantize_prepared

    rng = np.random.default_rng(0)
    samples, tested = (
        rng.normal(0, 1, (count, 1, 3, 160, 160)).astype(np.float32) for count in (8, 4)
    )
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "yolov8n.onnx"
        path.write_bytes(yolov8n(160, 1.8))
        exact = run_onnx(str(path), list(tested))
        found = quantize_prepared(prepare(load(path)), samples)
        ours = export_onnx(found.module, found.outputs).SerializeToString()
        other = str(theirs(path, samples, Path(name)))
        ratios = [signal_to_noise(exact, run_onnx(each, list(tested))) for each in (ours, other)]
    return Row("noise", ratios[0], ratios[1], [])


def digits() -> bool:
    """Accuracy of the demo's network on the images it was not trained with: in float, and on the
    simulator."""
    from loadstone.compiler import compile as compile_model
    from loadstone.compiler import quantize
    from loadstone.demo import load_digits, network_path

    data = load_digits()
    inputs = data.test_images[:, None]
    scores = {"float": run_onnx(str(network_path()), inputs)}
    for scheme, device in (("affine", "vtaq-1x16x16"), ("pow2", "vta-pynq")):
        found = quantize(network_path(), data.train_images[:200, None], scheme=scheme)
        scores[f"{scheme} on {device}"] = compile_model(found.module, device).run(inputs)[0]
    right = {
        name: float(
            np.mean(np.reshape(array, (len(inputs), -1)).argmax(axis=1) == data.test_labels)
        )
        for name, array in scores.items()
    }
    print(
        f"digits, {len(inputs)} images: "
        + ", ".join(f"{share:.2%} {name}" for name, share in right.items())
    )
    exact, affine, pow2 = right.values()
    return affine >= exact - 0.005 and pow2 >= exact - 0.015


def cost() -> bool:
    """Seconds and memory of squeezenet_f32 with 64 samples, in this process."""
    from loadstone.compiler import quantize

    model = next(entry for entry in images.MODELS if entry.file.startswith("squeezenet"))
    samples = images.prepare(model, SHARED, 64)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    quantize(SHARED / "models" / model.file, samples)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{model.file} with 64 samples: {seconds:.0f} s, {cpu:.0f} s of CPU (at most "
        f"{SECONDS} s); {peak:.2f} GiB (at most {GIBIBYTES} GiB)"
    )
    return seconds <= SECONDS and peak <= GIBIBYTES


if __name__ == "__main__":
    sys.exit(0 if run(sys.argv[1:]) else 1)
