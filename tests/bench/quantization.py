"""What quantization costs on real networks, beside ONNX Runtime's quantize_static: same samples, same granularity.

In:   the float models and photographs of ../shared/models; onnxruntime.
Out:  for each network and each set of inputs the signal to noise of the outputs (decibels), ours and theirs; time and memory.
Next: a person reads the table; `run` says whether ours is at least as good everywhere.

Both get 32 crops of the photographs (tests/images.py) and int8 activations per tensor, int8 weights per channel. Both
results are judged as the files say it: QDQ ONNX on ONNX Runtime without optimizations, against the float network: on the
golden inputs of the folder (noise, for most: far from any photograph) and on other crops.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from tests.conftest import SHARED
from tests.images import MODELS, FloatModel, prepare

__all__ = ["measure", "run", "run_onnx", "signal_to_noise", "theirs"]

SAMPLES, TESTED = 32, 24
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
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            self.items: Iterator[dict[str, NDArray[Any]]] = iter([{name: sample} for sample in samples])

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self.items, None)

    prepared, quantized = folder / "prepared.onnx", folder / "theirs.onnx"
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    reader = Reader(onnx.load(str(prepared)).graph.input[0].name)
    options = {"per_channel": True, "activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
    quantize_static(str(prepared), str(quantized), reader, quant_format=QuantFormat.QDQ, **options)
    return quantized


def measure(model: FloatModel, shared: Path, folder: Path) -> dict[str, tuple[list[float], list[float]]]:
    """(ours, theirs) for each set of inputs."""
    from loadstone.compiler import quantize
    from loadstone.quantize.export_onnx import export_onnx

    path = shared / "models" / model.file
    samples = prepare(model, shared, SAMPLES)
    found = quantize(path, samples)
    ours, exact = folder / "ours.onnx", folder / "float.onnx"
    found.save(ours)
    onnx.save(export_onnx(found.float_module, found.outputs), str(exact))
    plain = path if model.file.endswith(".onnx") and onnx.load(str(path)).opset_import[0].version >= PER_CHANNEL_OPSET else exact
    other = theirs(plain, samples, folder)

    sets = {
        "photographs": prepare(model, shared, TESTED, seed=1),
        "golden": np.load(shared / "models" / "golden" / f"{model.file}.npz")["in0"],
    }
    real = shared / "models" / "golden" / f"{model.file}.real.npz"
    if real.exists():
        sets["real"] = np.load(real)["in0"]
    table = {}
    for name, inputs in sets.items():
        wanted = run_onnx(str(exact), inputs)
        table[name] = tuple(signal_to_noise(wanted, run_onnx(str(file), inputs)) for file in (ours, other))
    return table  # type: ignore[return-value]


def run() -> bool:
    """Prints the table, then the time and memory of squeezenet with 64 samples."""
    if not SHARED.is_dir():
        print(f"{SHARED} is absent: nothing to quantize")
        return True
    held = True
    print(f"{'network':<28} {'inputs':<12} {'Loadstone':>18} {'quantize_static':>18}  dB")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            for name, (ours, other) in measure(model, SHARED, Path(folder)).items():
                better = all(x >= y for x, y in zip(ours, other, strict=True))
                held &= better
                texts = (" / ".join(f"{value:.2f}" for value in values) for values in (ours, other))
                print(f"{model.file:<28} {name:<12} {next(texts):>18} {next(texts):>18}  {'' if better else 'worse'}", flush=True)
    return cost() and held


def cost() -> bool:
    """Seconds and memory of squeezenet_f32 with 64 samples, in this process."""
    from loadstone.compiler import quantize

    model = next(entry for entry in MODELS if entry.file.startswith("squeezenet"))
    samples = prepare(model, SHARED, 64)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    quantize(SHARED / "models" / model.file, samples)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{model.file} with 64 samples: {seconds:.0f} s, {cpu:.0f} s of CPU (at most {SECONDS} s); {peak:.2f} GiB (at most {GIBIBYTES} GiB)"
    )
    return seconds <= SECONDS and peak <= GIBIBYTES


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
