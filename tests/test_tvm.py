# SPDX-License-Identifier: Apache-2.0
"""tvm.py of loadstone: networks through TVM's own passes for external code generators, in TVM's
virtual machine, with the framework's integers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import loadstone.tvm
from loadstone.errors import TargetError, UnsupportedError
from loadstone.frontend import load
from loadstone.relax.compat import FuseOpsByPattern, codegens, relax, tvm
from tests.compiled import golden, network
from tests.hosts.partial import images, onnx_with_sine
from tests.onnx_builder import Graph

TARGET = "vtaq-1x16x16"
KWS = "mlonmcu_micro_kws_m_qdq.onnx"


def patterns() -> list[Any]:
    return list(relax.backend.pattern_registry.get_patterns_with_prefix("loadstone"))


def by_tvms_passes(module: Any, merged: bool = True) -> Any:
    fused = FuseOpsByPattern(patterns(), bind_constants=True, annotate_codegen=not merged)(module)
    return relax.transform.MergeCompositeFunctions()(fused) if merged else fused


def machine(module: Any) -> Any:
    built = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    return relax.VirtualMachine(built.jit(**loadstone.tvm.link()), tvm.cpu())["main"]


def results(run: Any, samples: np.ndarray) -> np.ndarray:
    return np.stack([run(tvm.runtime.tensor(sample)).numpy() for sample in samples])


# --- real networks --------------------------------------------------------------------------------
@pytest.mark.parametrize("merged", [True, False])
def test_resnet8_in_tvms_machine_equals_litert_and_our_own_run(merged: bool, shared: Path) -> None:
    """Whole, or a function for each operator: then every intermediate tensor passes through TVM."""
    file = "mlpt_resnet8_int8.tflite"
    (x,), (y,) = golden(shared, file, 4)
    module = by_tvms_passes(loadstone.tvm.prepare(shared / "models" / file, TARGET), merged)
    assert codegens(module) == ("loadstone",)
    assert (len(module.functions) == 2) == merged
    made = relax.transform.RunCodegen({"loadstone": {"target": TARGET}})(module)
    assert codegens(made) == ()
    got = results(machine(made), x)
    assert np.array_equal(got, y.reshape(got.shape))
    (ours,) = network(shared, file, TARGET).run(x)
    assert np.array_equal(got, ours)


def test_a_network_of_tvms_own_importer(shared: Path) -> None:
    """Its softmax of real numbers is TVM's, on the host, and rounded to 1/256 behind it: at most a
    level from ONNX Runtime's. All is equal to our own run, which asks TVM for it as well."""
    path = shared / "models" / KWS
    model = onnx.load(path)
    name = model.graph.input[0].name
    from tvm.relax.frontend.onnx import from_onnx

    npu = loadstone.tvm.Npu(TARGET)
    npu.register()
    module = npu.partition(from_onnx(model, shape_dict={name: [1, 1960]}))
    assert "R.nn.softmax" in module["main"].script()
    assert "R.nn.conv2d" not in module["main"].script()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    (samples,), _ = golden(shared, KWS, 12)
    samples = samples.reshape(-1, 1, 1960)
    want = np.stack([session.run(None, {name: sample})[0] for sample in samples])
    got = results(machine(npu.codegen(module)), samples)
    assert np.abs(got - want).max() < 1.01 / 256
    assert np.count_nonzero(got != want) <= 1
    (ours,) = network(shared, KWS, TARGET).run(samples)
    assert np.array_equal(got, ours)


def test_what_the_target_does_not_take_stays_with_tvm(tmp_path: Path) -> None:
    path = tmp_path / "sine.onnx"
    path.write_bytes(onnx_with_sine())
    module = by_tvms_passes(loadstone.tvm.prepare(path, TARGET))
    assert len(module.functions) == 3
    assert "R.sin" in module["main"].script()
    got = results(machine(loadstone.tvm.codegen(module, TARGET)), images(8))
    assert np.array_equal(got, loadstone.compile(path, TARGET).run(images(8))[0])


def test_a_float_network_is_tvms_alone(shared: Path) -> None:
    module = by_tvms_passes(loadstone.tvm.prepare(shared / "models/mnist8_f32.onnx", TARGET))
    assert codegens(module) == ()
    assert [variable.name_hint for variable in module.functions] == ["main"]
    (x,), (y,) = golden(shared, "mnist8_f32.onnx", 2)
    got = results(machine(module), x)
    assert np.allclose(got, y.reshape(got.shape), rtol=1e-4, atol=1e-2)


def halves(numerics: str) -> Any:
    """An average of int8 values that lie between two integers: the rules round them apart."""
    graph = Graph()
    x = graph.dequantize(graph.input((1, 1, 2, 2), np.int8), 0.5, 0)
    y = graph.quantize(graph.node("AveragePool", x, kernel_shape=[2, 2]), 0.5, 0)
    module = load(onnx.load_from_string(graph.save([(y, np.int8)], [(1, 1, 1, 1)])))
    module["main"] = module["main"].with_attr("loadstone.numerics", numerics)
    return module


@pytest.mark.parametrize(("numerics", "want"), [("onnx", 2), ("tflite", 3)])
@pytest.mark.parametrize("by", ["codegen", "RunCodegen"])
def test_the_frameworks_rounding_passes_through_tvms_functions(
    numerics: str, want: int, by: str
) -> None:
    """(1 + 2 + 3 + 4) / 4: ONNX Runtime rounds a half to even, LiteRT up. TVM gives no attribute of
    `main` to the functions that it makes."""
    module = by_tvms_passes(loadstone.tvm.prepare(halves(numerics), TARGET), merged=False)
    assert codegens(module) == ("loadstone",)
    if by == "codegen":
        made = loadstone.tvm.codegen(module, TARGET)
    else:
        made = relax.transform.RunCodegen({"loadstone": {"target": TARGET}})(module)
    sample = np.array([1, 2, 3, 4], np.int8).reshape(1, 1, 2, 2)
    assert results(machine(made), sample[None]).item() == want


# --- the seats of older interfaces ----------------------------------------------------------------
def test_the_patterns_are_there_from_the_import_on() -> None:
    """In a process that has imported nothing else; a second import adds none."""
    text = (
        "import loadstone.tvm, importlib\n"
        "from tvm.relax.backend.pattern_registry import get_patterns_with_prefix as rows\n"
        "before = [row.name for row in rows('loadstone')]\n"
        "importlib.reload(loadstone.tvm)\n"
        "assert before == [row.name for row in rows('loadstone')]\n"
        "print(*before)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert names[0] == "loadstone.conv2d"  # the first match wins
    assert {"loadstone.dense", "loadstone.softmax", "loadstone.max_pool2d"} <= set(names)


def test_a_target_of_tvms_names_the_device() -> None:
    target = loadstone.tvm.target(f"{TARGET} -clock_mhz=50, llvm")
    assert target.kind.name == "ext_dev"
    assert target.attrs["device"] == TARGET
    assert target.host.kind.name == "llvm"
    module = by_tvms_passes(loadstone.tvm.prepare(halves("onnx"), target))
    made = relax.transform.RunCodegen({"loadstone": {"target": target}})(module)
    assert codegens(made) == ()
    npu = loadstone.tvm.Npu(target)
    npu.register()
    assert tvm.target.Target(npu.target_name).attrs["device"] == TARGET
    with pytest.raises(TargetError, match="'vtaq-9' is no accelerator"):
        loadstone.tvm.target("vtaq-9")


# --- what goes wrong ------------------------------------------------------------------------------
def test_a_module_without_marks_is_refused(tmp_path: Path) -> None:
    """Else nothing would match, and TVM would run the whole network on the host."""
    with pytest.raises(UnsupportedError, match=r"no marks: call loadstone\.tvm\.prepare"):
        by_tvms_passes(halves("onnx"))


def test_a_size_that_tvms_importer_left_open_is_named(shared: Path) -> None:
    from tvm.relax.frontend.onnx import from_onnx

    imported = from_onnx(onnx.load(shared / "models" / KWS))
    with pytest.raises(UnsupportedError, match=r"input .* has a dynamic shape: give the importer"):
        loadstone.tvm.prepare(imported, TARGET)
