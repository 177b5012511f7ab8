# SPDX-License-Identifier: Apache-2.0
"""What a call through a host costs: a network on the null device, so that the host's own time is
left.

Columns: microseconds of one call, input and output included; the same beside the least, which is
the C interface called through cffi; bytes copied between the caller's arrays and the device's
memory. Below: the size of each library.

ResNet8 in TVM and LiteRT; for ONNX Runtime the network with a sine in the middle that the tests
have, whole and as our own run has it, because the folder holds no ONNX network that goes to the
device whole. Without ../shared/models there is nothing to measure.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.compiler import compile as compile_model
from loadstone.hosts import litert, tvm_memory
from loadstone.hosts import onnxruntime as onnx_host
from loadstone.hosts import tvm as tvm_host
from loadstone.library.native import library_file
from loadstone.relax.compat import tvm
from loadstone.runtime import device
from tests.bench.runtime import best_us
from tests.hosts.easy import Easy
from tests.hosts.partial import SHAPE, onnx_with_sine

TARGET = "vtaq-1x16x16"
RESNET8 = "mlpt_resnet8_int8.tflite"
#: Microseconds that a host may add to a call of C.
MOST_US = 60.0


def run() -> bool:
    """Prints the table; False when a host adds more than MOST_US."""
    shared = os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared")
    models = Path(shared) / "models"
    if not models.is_dir():
        print(f"skipped: {models} is absent")
        return True
    print(f"{'network':<10} {'through':<28} {'us a call':>9} {'more us':>8} {'bytes copied':>12}")
    with tempfile.TemporaryDirectory() as folder:
        held = resnet8(models / RESNET8, Path(folder)) & sine(Path(folder))
    for name in ("loadstone", "loadstone_litert", "loadstone_onnxruntime"):
        size = library_file().with_name(f"lib{name}.so").stat().st_size
        print(f"lib{name}.so: {size} bytes")
    with tempfile.TemporaryDirectory() as folder:
        path = tvm_memory.build(folder)
        print(f"{path.name}: {path.stat().st_size} bytes")
    return held


def row(network: str, through: str, call: Callable[[], Any], least: float, copied: int) -> float:
    """Prints one line; the microseconds."""
    us = best_us(call)
    more = f"{us - least:>8.2f}" if least else f"{'':>8}"
    print(f"{network:<10} {through:<28} {us:>9.2f} {more} {copied:>12}", flush=True)
    return us


def resnet8(model: Path, folder: Path) -> bool:
    """In TVM and LiteRT, beside cffi and lds_easy.h."""
    x, y = np.zeros((1, 32, 32, 3), np.int8), np.zeros((1, 10), np.int8)
    artifact = compile_model(str(model), TARGET).artifact
    with device.open("null") as null, null.load(artifact) as session:
        row(
            "resnet8",
            "Session.run (Python)",
            lambda: session.run([x[None]]),
            0,
            x.nbytes + y.nbytes,
        )
    with Easy(artifact, "null") as net:
        call, copied = net.prepared([x], [y])
        least = row("resnet8", "lds_easy_run", call, 0, copied)
        call, copied = net.prepared([], [])
        row("resnet8", "lds_easy_run, in place", call, least, copied)
    get = tvm_functions(model, folder)
    function, copied_bytes = get("loadstone_0"), get("loadstone_copied_bytes")
    a, b = tvm.runtime.tensor(x), tvm.runtime.tensor(y)
    most = row("resnet8", "TVM", lambda: function(a, b), least, x.nbytes + y.nbytes) - least
    a, b = (get("loadstone_memory")("loadstone_0", k) for k in (0, 1))
    before = copied_bytes("loadstone_0")
    function(a, b)
    copied = copied_bytes("loadstone_0") - before
    row("resnet8", "TVM, in place", lambda: function(a, b), least, copied)
    interpreter = litert_interpreter(model)
    most = max(most, row("resnet8", "LiteRT", interpreter, least, x.nbytes + y.nbytes) - least)
    return most < MOST_US


def tvm_functions(model: Path, folder: Path) -> Callable[[str], Any]:
    """The functions of a library of TVM's runtime, of which one is the whole network."""
    module = tvm_host.codegen(tvm_host.partition(model, TARGET), TARGET, "null")
    built = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    built.export_library(str(folder / "resnet8.so"), **tvm_host.link())
    loaded = tvm.runtime.load_module(str(folder / "resnet8.so"))
    return lambda name: loaded.get_function(name, query_imports=True)


def litert_interpreter(model: Path) -> Callable[[], None]:
    """invoke() of an interpreter with our delegate."""
    from ai_edge_litert.interpreter import Interpreter, load_delegate

    delegate = load_delegate(str(litert.delegate_file()), {"device": "null"})
    interpreter = Interpreter(
        model_content=litert.compile(model, TARGET).data, experimental_delegates=[delegate]
    )
    interpreter.allocate_tensors()
    return interpreter.invoke  # type: ignore[no-any-return]


def sine(folder: Path) -> bool:
    """In ONNX Runtime: two artifacts, and its own sine of 576 elements between them."""
    import onnxruntime

    path = folder / "sine.onnx"
    path.write_bytes(onnx_with_sine())
    made = onnx_host.compile(path, TARGET)
    x = np.zeros(SHAPE, np.int8)
    least = 0.0
    copied = 0
    for part in made.parts:
        with Easy(part.artifact, "null") as net:
            ports = [part.artifact.inputs, part.artifact.outputs]
            views = [[part.artifact.tensors[i] for i in indices] for indices in ports]
            arrays = [[np.zeros(t.shape, t.dtype.numpy) for t in side] for side in views]
            call, count = net.prepared(*arrays)
            least += row("sine", f"lds_easy_run, {part.artifact.name}", call, 0, count)
            copied += count
    onnxruntime.register_execution_provider_library("Loadstone", str(onnx_host.provider_file()))
    chosen = [d for d in onnxruntime.get_ep_devices() if d.ep_name == onnx_host.PROVIDER]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_provider_for_devices(chosen, {"device": "null"})
    session = onnxruntime.InferenceSession(made.data, options, enable_fallback=0)
    us = row("sine", "ONNX Runtime", lambda: session.run(None, {"in0": x}), least, copied)
    return us - least < MOST_US
