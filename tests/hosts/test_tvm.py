# SPDX-License-Identifier: Apache-2.0
"""hosts/tvm.py: artifacts in a TVM runtime module, run by TVM in this process, and in one that has
neither our package nor a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from loadstone.frontend import load
from loadstone.hosts import tvm as host
from loadstone.relax.compat import FuseOpsByPattern, codegens, dpl, relax, tvm
from tests.compiled import golden, network
from tests.hosts.easy import bytes_kept
from tests.hosts.partial import images, onnx_with_sine
from tests.onnx_builder import Graph

TARGET = "vtaq-1x16x16"
LLVM = {"kind": "llvm"}
#: What a process does that has TVM's runtime, and neither our package nor TVM's compiler.
RUN = """
import sys
sys.modules["loadstone"] = sys.modules["torch"] = None
import numpy as np, tvm
from tvm.runtime.vm import VirtualMachine
library, samples, device = sys.argv[1:]
module = tvm.runtime.load_module(library)
if device:
    module.get_function("loadstone_device", query_imports=True)(device)
run = VirtualMachine(module, tvm.cpu())["main"]
np.save(samples, np.stack([run(tvm.runtime.tensor(x)).numpy() for x in np.load(samples)]))
"""


def exported(module: Any, path: Path) -> Path:
    tvm.compile(module, tvm.target.Target(LLVM)).export_library(str(path), **host.link())
    return path


def machine(library: Path) -> Any:
    loaded = tvm.runtime.load_module(str(library))
    return relax.VirtualMachine(loaded, tvm.cpu())["main"]


@pytest.fixture(scope="module")
def sine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network with a sine in the middle, exported."""
    path = tmp_path_factory.mktemp("sine")
    (path / "sine.onnx").write_bytes(onnx_with_sine())
    module = host.codegen(host.partition(path / "sine.onnx", TARGET), TARGET)
    return exported(module, path / "sine.so")


def wanted(library: Path, x: np.ndarray) -> np.ndarray:
    return compile(library.with_suffix(".onnx"), TARGET).run(x)[0]


# --- runs -----------------------------------------------------------------------------------------
def in_a_fresh_process(library: Path, x: np.ndarray, device: str) -> np.ndarray:
    samples = library.with_suffix(".npy")
    np.save(samples, x)
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(library), str(samples), device],
        env={**kept, "TVM_USE_RUNTIME_LIB": "1"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.load(samples)


def test_a_network_runs_where_there_is_tvms_runtime_alone(shared: Path, tmp_path: Path) -> None:
    file = "mlpt_resnet8_int8.tflite"
    (x,), (y,) = golden(shared, file, 4)
    module = host.partition(shared / "models" / file, TARGET)
    assert sorted(v.name_hint for v in module.functions) == ["loadstone_0", "main"]
    library = exported(host.codegen(module, TARGET, "null"), tmp_path / "resnet8.so")
    got = in_a_fresh_process(library, x, "sim")
    assert np.array_equal(got, y.reshape(got.shape))
    (ours,) = network(shared, file, TARGET).run(x)
    assert np.array_equal(got, ours)


def test_a_network_on_two_devices_has_the_outputs_of_litert(shared: Path, tmp_path: Path) -> None:
    file, target = "mlpt_kws_int8.tflite", f"{TARGET} -count=2"
    (x,), (y,) = golden(shared, file, 3)
    module = host.codegen(host.partition(shared / "models" / file, target), target)
    library = exported(module, tmp_path / "kws.so")
    assert f"{TARGET}.1".encode() in library.read_bytes()
    run = machine(library)
    for sample, want in zip(x, y, strict=True):
        got = run(tvm.runtime.tensor(sample)).numpy()
        assert np.array_equal(got.reshape(want.shape), want)


def test_which_device_runs_it(sine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of codegen; the environment's, which a process may have; that which it was told."""
    x = images(1)[0]
    want = wanted(sine, x[None])[0]
    for name, told in (("", False), ("null", False), ("null", True)):
        library = tmp_path / f"{name}{told}.so"
        library.write_bytes(sine.read_bytes())
        monkeypatch.setenv("LOADSTONE_DEVICE", name)
        module = tvm.runtime.load_module(str(library))
        if told:
            module.get_function("loadstone_device", query_imports=True)("sim")
        got = relax.VirtualMachine(module, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
        assert np.array_equal(got, want) == (name != "null" or told)


def test_what_stands_in_the_middle_is_compiled_by_tvm(sine: Path) -> None:
    x = images(8)
    parts = host.partition(sine.with_suffix(".onnx"), TARGET)
    names = sorted(v.name_hint for v in parts.functions)
    assert names == ["loadstone_0", "loadstone_1", "main"]
    assert "R.sin" in parts["main"].script()
    assert codegens(parts) == ("loadstone",)
    run = machine(sine)
    got = np.stack([run(tvm.runtime.tensor(sample)).numpy() for sample in x])
    assert np.array_equal(got, wanted(sine, x))
    assert len(np.unique(got)) > 100


def test_functions_for_a_back_end_of_the_target_become_artifacts(tmp_path: Path) -> None:
    """As a user's own partitioning leaves them: one function for each match, with a composite
    function inside."""
    graph = Graph()
    x = graph.dequantize(graph.input((1, 8, 6, 6), np.int8), 0.1, 2)
    y = graph.quantize(graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 0.1, 2)
    path = tmp_path / "pool.onnx"
    path.write_bytes(graph.save([(y, np.int8)], [(1, 8, 3, 3)]))
    module = load(path)
    with pytest.raises(UnsupportedError, match=r"carries Codegen vta.*hosts\.tvm\.codegen"):
        compile(annotated(module), TARGET)
    made = host.codegen(annotated(module), TARGET)
    assert codegens(made) == ()
    sample = np.random.default_rng(0).integers(-128, 128, (1, 8, 6, 6)).astype(np.int8)
    got = machine(exported(made, tmp_path / "pool.so"))(tvm.runtime.tensor(sample)).numpy()
    pooled = sample.reshape(1, 8, 3, 2, 3, 2).max((3, 5))
    assert np.array_equal(got, pooled)


def annotated(module: Any) -> Any:
    w = dpl.wildcard
    real = dpl.is_op("relax.dequantize")(w(), w(), w())
    pool = dpl.is_op("relax.quantize")(dpl.is_op("relax.nn.max_pool2d")(real), w(), w())
    rows = [("vta.max_pool", pool)]
    return FuseOpsByPattern(rows, bind_constants=True, annotate_codegen=True)(module)


def test_a_library_of_several_samples(tmp_path: Path, shared: Path) -> None:
    """A device of batch 4 runs three samples in one call, and seven in two."""
    file = "mlpt_ad_int8.tflite"
    (x,), (y,) = golden(shared, file, 8)
    target = "vtaq-4x16x16"
    module = host.codegen(host.partition(shared / "models" / file, target), target)
    exported(module, tmp_path / "ad.so")
    function = tvm.runtime.load_module(str(tmp_path / "ad.so")).get_function(
        "loadstone_0", query_imports=True
    )
    for count in (1, 3, 7):
        want = y[:count].reshape(count, -1)
        out = tvm.runtime.tensor(np.zeros_like(want))
        function(tvm.runtime.tensor(x[:count].reshape(count, -1)), out)
        assert np.array_equal(out.numpy(), want)


def test_tensors_in_the_devices_memory_are_not_copied(sine: Path, tmp_path: Path) -> None:
    library = tmp_path / "memory.so"
    library.write_bytes(sine.read_bytes())
    get = tvm.runtime.load_module(str(library)).get_function
    memory, copied, function = (
        get(name, query_imports=True)
        for name in ("loadstone_memory", "loadstone_copied_bytes", "loadstone_0")
    )
    other = tvm.runtime.load_module(str(sine)).get_function("loadstone_0", query_imports=True)
    there, out = memory("loadstone_0", 0), memory("loadstone_0", 1)
    views = [np.from_dlpack(tensor) for tensor in (there, out)]
    for sample in images(3):
        views[0][...] = sample
        function(there, out)
        wanted = tvm.runtime.tensor(np.zeros(views[1].shape, np.float32))
        other(tvm.runtime.tensor(sample), wanted)
        assert np.array_equal(views[1], wanted.numpy())
    assert copied("loadstone_0") == 0
    mine = tvm.runtime.tensor(np.zeros(views[1].shape, np.float32))
    function(there, mine)
    assert np.array_equal(mine.numpy(), views[1])
    assert copied("loadstone_0") == views[1].nbytes
    for arguments, line in (
        (("loadstone_0", 2), "loadstone_0: the index exceeds its inputs and outputs"),
        (("loadstone_9", 0), "loadstone_memory: the name of a function and an index are expected"),
    ):
        with pytest.raises(Exception, match=line):
            memory(*arguments)


# --- what goes wrong ------------------------------------------------------------------------------
def message(caught: pytest.ExceptionInfo[BaseException]) -> str:
    return str(caught.value).strip().splitlines()[-1]


def test_wrong_tensors_are_refused_in_one_line(sine: Path) -> None:
    function = tvm.runtime.load_module(str(sine)).get_function("loadstone_0", query_imports=True)
    x, y = np.zeros((1, 8, 6, 6), np.int8), np.zeros((1, 6, 6, 16), np.float32)
    for arrays, line in (
        ((x,), "2 tensors are expected, not 1: inputs, then outputs"),
        ((x, "y"), "argument 1 is no tensor"),
        ((x.view(np.uint8), y), "argument 0 ('in0') has another type than the artifact's tensor"),
        ((x[:, :4].copy(), y), "argument 0 ('in0') has another shape than the artifact's tensor"),
        ((x[0], y), "argument 0 ('in0') has another shape than the artifact's tensor"),
        ((np.zeros((2, 8, 6, 6), np.int8), y), "its tensors hold different numbers of samples"),
    ):
        with pytest.raises(Exception, match=r"loadstone_0: ") as caught:
            function(*(a if isinstance(a, str) else tvm.runtime.tensor(a) for a in arrays))
        assert f"loadstone_0: {line}" in message(caught)


def test_a_device_is_named_before_the_first_call(sine: Path, tmp_path: Path) -> None:
    library = tmp_path / "other.so"
    library.write_bytes(sine.read_bytes())
    module = tvm.runtime.load_module(str(library))
    choose = module.get_function("loadstone_device", query_imports=True)
    with pytest.raises(Exception, match="device 'gpu' is not one of sim, null"):
        choose("gpu")
    choose("simd:/nowhere")
    run = relax.VirtualMachine(module, tvm.cpu())["main"]
    x = tvm.runtime.tensor(images(1)[0])
    with pytest.raises(Exception, match=r"loadstone_0: the simulator at /nowhere does not answer"):
        run(x)


def test_a_damaged_artifact_is_refused(sine: Path, tmp_path: Path) -> None:
    data = bytearray(sine.read_bytes())
    at = data.index(b"LDSM")
    data[at + 200] ^= 1
    (tmp_path / "bad.so").write_bytes(data)
    with pytest.raises(
        Exception, match=r"loadstone_\d: artifact: the artifact's content is damaged"
    ):
        machine(tmp_path / "bad.so")(tvm.runtime.tensor(images(1)[0]))


def test_a_network_without_anything_for_the_target(tmp_path: Path) -> None:
    graph = Graph()
    y = graph.node("Sin", graph.input((1, 4), np.float32))
    path = tmp_path / "sin.onnx"
    path.write_bytes(graph.save([(y, np.float32)], [(1, 4)]))
    with pytest.raises(UnsupportedError, match=f"no part of the model runs on {TARGET}: works on"):
        host.partition(path, TARGET)


def test_a_function_that_needs_python_and_a_call_past_codegen(tmp_path: Path) -> None:
    path = tmp_path / "sine.onnx"
    path.write_bytes(onnx_with_sine())
    main = load(path)["main"].with_attr("Codegen", "loadstone").with_attr("global_symbol", "whole")
    builder = relax.BlockBuilder(tvm.IRModule())
    callee = builder.add_func(main, "whole")
    x = relax.Var("x", main.params[0].ty)
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(relax.Call(callee, [x])))
        builder.emit_func_output(y)
    module = builder.get()
    with pytest.raises(
        UnsupportedError, match="function whole: step 'n7' needs Python at run time"
    ):
        host.codegen(module, TARGET)
    with pytest.raises(UnsupportedError, match="no target: call loadstone.hosts.tvm.codegen"):
        relax.transform.RunCodegen()(module)
    with pytest.raises(
        UnsupportedError, match="function whole: step 'n7' needs Python at run time"
    ):
        relax.transform.RunCodegen({"loadstone": {"target": TARGET}})(module)


# --- many -----------------------------------------------------------------------------------------
def test_a_hundred_machines_leave_nothing(sine: Path) -> None:
    """TVM itself keeps 19 KB of each load of a library, whatever is in it."""
    x = images(1)[0]
    loaded = tvm.runtime.load_module(str(sine))

    def session() -> None:
        relax.VirtualMachine(loaded, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()

    assert bytes_kept(session) < 10_000
    loads = bytes_kept(lambda: tvm.runtime.load_module(str(sine)))
    assert bytes_kept(lambda: machine(sine)(tvm.runtime.tensor(x))) - loads < 50_000


def test_two_threads_call_one_library(sine: Path) -> None:
    x = images(20)
    want = wanted(sine, x)
    wrong: list[int] = []

    def work(begin: int) -> None:
        run = machine(sine)
        for k in range(begin, len(x), 2):
            if not np.array_equal(run(tvm.runtime.tensor(x[k])).numpy(), want[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(begin,)) for begin in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
