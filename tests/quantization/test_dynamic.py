# SPDX-License-Identifier: Apache-2.0
"""quantization/dynamic.py: a scale for each row, found when the network runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.compiler import compile, quantize
from loadstone.errors import ConfigError, LoadstoneError, ModelError
from loadstone.quantization.accuracy import remarks_of, weights_text
from loadstone.quantization.dynamic import quantized_weights
from loadstone.quantization.report import as_html
from loadstone.relax.compat import bindings, dtype, is_call
from loadstone.relax.grid_weights import weights_error
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Load
from loadstone.vta.isa.spec import Memory
from tests.onnx_builder import Graph, run

DRAW = np.random.default_rng(8)
ROWS, DEPTH, INNER = 6, 32, 48


def numbers(*shape: int) -> NDArray[np.float32]:
    return DRAW.normal(size=shape).astype(np.float32)


FIRST, SECOND, LAST = numbers(DEPTH, INNER), numbers(DEPTH, INNER), numbers(INNER, DEPTH)


def gated() -> bytes:
    """Two layers of one input, and a third one of their product."""
    graph = Graph()
    x = graph.input((1, ROWS, DEPTH), np.float32)
    sides = [graph.node("MatMul", x, graph.constant(w)) for w in (FIRST, SECOND)]
    gate = graph.node("Mul", sides[0], graph.node("Sigmoid", sides[1]))
    y = graph.node("MatMul", gate, graph.constant(LAST))
    return graph.save([(y, np.float32)], [(1, ROWS, DEPTH)])


def quantized(**options: Any) -> Any:
    samples = numbers(4, 1, ROWS, DEPTH)
    return quantize(onnx.load_model_from_string(gated()), samples, scheme="dynamic", **options)


def rows_times(x: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """The scheme in NumPy."""
    levels, scales = quantized_weights(weights, per_channel=True)
    reach = np.abs(x).max(axis=-1, keepdims=True)
    step = reach / np.float32(127)
    scale = np.where(step == 0, np.float32(1), step)
    integers = np.clip(np.rint(x / scale), -127, 127).astype(np.int64)
    sums = (integers @ levels.astype(np.int64)).astype(np.float32)
    return np.asarray(sums * scale * scales, np.float32)


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16"])
def test_every_product_runs_on_the_device_with_numpy_s_bits(device: str) -> None:
    """Of a row of zeros, too."""
    graph = Graph()
    x = graph.input((1, ROWS, DEPTH), np.float32)
    y = graph.node("MatMul", x, graph.constant(FIRST))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, ROWS, INNER)]))
    compiled = compile(quantize(model, numbers(2, 1, ROWS, DEPTH), scheme="dynamic"), device)
    given = numbers(3, 1, ROWS, DEPTH)
    given[0, 0, 2] = 0
    (got,) = compiled.run(given)
    assert got.tobytes() == rows_times(given, FIRST).tobytes()
    assert "plane_dense" in [o.kind for o in compiled.partition.graph.operators]
    assert not compiled.python_steps


def test_the_scale_of_an_input_is_found_once() -> None:
    calls = [call for _, call in bindings(quantized().module["main"])]
    products = [call for call in calls if is_call(call, "matmul")]
    assert [dtype(call) for call in products] == ["int32"] * 3
    assert products[0].args[0] == products[1].args[0]
    assert sum(is_call(call, "max") for call in calls) == 2


def test_the_file_gives_what_the_network_gives(tmp_path: Any) -> None:
    """Standard ONNX, which ONNX Runtime runs, too."""
    made, path = quantized(), tmp_path / "net.onnx"
    made.save(path)
    x = numbers(2, 1, ROWS, DEPTH)
    (ours,), (again,) = (compile(m, "vta-pynq").run(x) for m in (made, path))
    assert ours.tobytes() == again.tobytes()
    for sample, wanted in zip(ours, x, strict=True):
        (theirs,) = run(path.read_bytes(), [wanted])
        np.testing.assert_allclose(sample, theirs, rtol=1e-5, atol=1e-3)


def test_the_report_has_the_loss() -> None:
    labels = np.zeros(4, np.int64)
    report = quantized(labels=labels).report
    assert report["scheme"] == "dynamic"
    assert report["output_sqnr_db"][0] > 30
    assert None not in (report["top1"], report["float_top1"])
    assert "3 dense layers" in report["steps"][0]


def test_weights_have_127_steps_a_channel() -> None:
    levels, scales = quantized_weights(
        np.array([[1, 0, -4], [0.5, 0, 2]], np.float32), per_channel=True
    )
    assert levels.tolist() == [[127, 0, -127], [64, 0, 64]]
    np.testing.assert_array_equal(scales, np.array([1 / 127, 1, 4 / 127], np.float32))
    assert len(quantized_weights(FIRST, per_channel=False)[1]) == 1


def test_the_report_has_what_int8_changes_of_each_layer_s_weights() -> None:
    report = quantized().report
    for weights, entry in zip((FIRST, SECOND, LAST), report["weight_errors"], strict=True):
        levels, scales = quantized_weights(weights, per_channel=True)
        off = np.sqrt(np.mean((levels * scales.astype(np.float64) - weights) ** 2))
        assert entry["error"] == pytest.approx(off / np.sqrt(np.mean(weights**2)), rel=1e-3)
    texts = as_html(report, "net"), weights_text(report), dict(remarks_of(report))["int8 weights"]
    assert len({entry["name"] for entry in report["weight_errors"]}) == 3
    for entry in report["weight_errors"]:
        assert all(entry["name"][-40:] in text for text in texts)
    zeros = np.zeros((4, 2), np.float32)
    assert weights_error(zeros, *quantized_weights(zeros, per_channel=True)) == 0


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("block", [16, 32])
def test_blocks_of_four_bits_come_with_their_error(
    block: int, tmp_path: Any, *, symmetric: bool
) -> None:
    """MatMulNBits of ONNX Runtime's own quantizer: products agree with its kernel, and int8 is
    compared with what the file says, not with the weights before that."""
    nbits = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    model = onnx.load_model_from_string(gated())
    writer = nbits.MatMulNBitsQuantizer(model, 4, block, is_symmetric=symmetric)
    writer.process()
    path = tmp_path / "net.onnx"
    onnx.save(writer.model.model, path)
    file = onnx.load(path)
    assert [n.op_type for n in file.graph.node].count("MatMulNBits") == 3
    made = quantize(path, numbers(4, 1, ROWS, DEPTH), scheme="dynamic")
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in file.graph.initializer}
    products = [node for node in file.graph.node if node.op_type == "MatMulNBits"]
    for node, entry in zip(products, made.report["weight_errors"], strict=True):
        weights = of_blocks(block, *(stored[name] for name in node.input[1:]))
        levels, scales = quantized_weights(weights, per_channel=True)
        off = np.sqrt(np.mean((levels * scales.astype(np.float64) - weights) ** 2))
        assert entry["error"] == pytest.approx(off / np.sqrt(np.mean(weights**2)), rel=1e-3)
        assert 0.001 < entry["error"] < 0.02
    x = numbers(1, ROWS, DEPTH)
    (theirs,) = run(path.read_bytes(), [x])
    for net, bound in ((path, 1e-5), (made, 0.03)):  # as float, and with int8 rows and weights
        (got,) = compile(net, "vta-pynq", as_float=net is path).run(x[None])
        assert np.abs(got[0] - theirs).max() <= bound * np.abs(theirs).max()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("block", [32, 64])
def test_four_bits_stay_four_and_within_their_error(
    block: int, tmp_path: Path, *, symmetric: bool
) -> None:
    """A row with a single 127 comes to weights, which ONNX Runtime's kernel has, too: between both
    is the error that is stated. Rows of integers lose nothing else."""
    nbits = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    depth, graph, path = 128, Graph(), tmp_path / "net.onnx"
    x = graph.input((1, depth, depth), np.float32)
    y = graph.node("MatMul", x, graph.constant(numbers(depth, INNER)))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, depth, INNER)]))
    writer = nbits.MatMulNBitsQuantizer(model, 4, block, is_symmetric=symmetric)
    writer.process()
    onnx.save(writer.model.model, path)
    single = 127 * np.eye(depth, dtype=np.float32)[None]
    rows = DRAW.integers(-126, 127, (1, depth, depth)).astype(np.float32)
    rows[..., 0] = 127
    given = np.stack([single, rows])
    made = quantize(path, given, scheme="dynamic", weights4="all")
    ((entry,), (plain,)) = (
        report["weight_errors"]
        for report in (made.report, quantize(path, given, scheme="dynamic").report)
    )
    assert entry["int8"] == plain["error"]
    assert "int8" not in plain
    assert 0.001 < entry["int8"] < entry["error"] < 0.02
    assert f"{entry['error']:.2%} (int8 {entry['int8']:.2%})" in weights_text(made.report)
    assert f"{entry['error']:.3%}, {entry['int8']:.3%} in int8" in as_html(made.report, "net")
    compiled = compile(made, "vtaq2-1x16x16")
    loads = [
        insn
        for program in compiled.artifact.programs
        for insn in decode_stream(program.instructions, load_config("vtaq2-1x16x16"))
        if isinstance(insn, Load) and not insn.is_noop
    ]
    packed = [insn.x_size * insn.y_size for insn in loads if insn.memory_id == Memory.WGT_4BIT]
    assert sum(packed) == depth * INNER // (32 * 16)
    assert not any(insn.memory_id == Memory.WGT for insn in loads)
    (got,) = compiled.run(given)
    (same,) = compile(made, "vta-pynq").run(given)
    assert got.tobytes() == same.tobytes()
    theirs = np.stack([run(path.read_bytes(), [x])[0] for x in given])
    off = np.linalg.norm(got[0] - theirs[0]) / np.linalg.norm(theirs[0])
    assert off == pytest.approx(entry["error"], rel=1e-3)
    most = entry["error"] * np.linalg.norm(theirs[0]) / 127 * np.linalg.norm(rows[0], axis=-1)
    assert (np.linalg.norm(got[1] - theirs[1], axis=-1) <= most).all()


def test_four_bits_are_refused_where_there_are_none() -> None:
    with pytest.raises(ModelError, match="weights4: no dense layer has 16 equidistant values"):
        quantized(weights4="all")
    with pytest.raises(LoadstoneError, match="weights4 'most' is not for networks without"):
        quantized(weights4="most")
    with pytest.raises(LoadstoneError, match="each channel a scale of its own, and per_channel"):
        quantized(weights4="all", per_channel=False)
    model, samples = onnx.load_model_from_string(gated()), numbers(4, 1, ROWS, DEPTH)
    with pytest.raises(LoadstoneError, match="weights4 is said with scheme 'affine': it is for"):
        quantize(model, samples, weights4="all")


def of_blocks(block: int, packed: Any, scales: Any, zeros: Any = None) -> NDArray[np.float32]:
    """Weights (K, N) of bytes (N, blocks, block / 2), the lower four bits first."""
    count, blocks, _ = packed.shape
    levels = np.stack([packed & 15, packed >> 4], -1).reshape(count, blocks, block).astype(int)
    middle: Any = 8
    if zeros is not None:
        nibbles = np.stack([zeros & 15, zeros >> 4], -1).reshape(count, -1)
        middle = nibbles[:, :blocks, None].astype(int)
    real = (levels - middle) * scales.reshape(count, blocks, 1)
    rows = INNER if count == DEPTH else DEPTH
    return np.asarray(real.reshape(count, -1)[:, :rows].T, np.float32)


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16"])
@pytest.mark.parametrize("rows", [1, 6, 32])
def test_costs_change_no_bit(rows: int, device: str, tmp_path: Any) -> None:
    """Of one row, which the host may be quicker with, and of several; of the file, too. Steps of
    single operators have no stated cost."""
    graph = Graph()
    x = graph.input((1, rows, DEPTH), np.float32)
    inner = graph.node("Relu", graph.node("MatMul", x, graph.constant(FIRST)))
    y = graph.node("MatMul", inner, graph.constant(LAST))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, rows, DEPTH)]))
    made, path = quantize(model, numbers(4, 1, rows, DEPTH), scheme="dynamic"), tmp_path / "n.onnx"
    made.save(path)
    given = numbers(2, 1, rows, DEPTH)
    (want,) = compile(made, device).run(given)
    for net in (made, path):
        compiled = compile(net, device, strategy="cost")
        assert compiled.choice is not None
        assert compiled.run(given)[0].tobytes() == want.tobytes()
        assert not compiled.python_steps
    with pytest.raises(ConfigError, match="nothing is known of step .* leave --host out"):
        compile(made, device, strategy="cost", host="cortex-m4@100")


def test_options_of_ranges_are_refused_by_name() -> None:
    with pytest.raises(LoadstoneError, match="method is said with scheme 'dynamic'"):
        quantized(method="mse")
    with pytest.raises(LoadstoneError, match="keep_float is said with scheme 'dynamic'"):
        quantized(keep_float="auto")


def test_a_network_that_is_dynamic_already_is_refused() -> None:
    made = quantized().module
    with pytest.raises(ModelError, match="is quantized already: compile the model as it is"):
        quantize(made, numbers(2, 1, ROWS, DEPTH), scheme="dynamic")


def test_a_device_of_bfloat16_leaves_the_products_to_the_host() -> None:
    compiled = compile(quantized(), "vtab-1x16x16")
    assert not compiled.python_steps
    x = numbers(2, 1, ROWS, DEPTH)
    (got,), (want,) = (made.run(x) for made in (compiled, compile(quantized(), "vta-pynq")))
    np.testing.assert_allclose(got, want, rtol=0, atol=0.02 * np.abs(want).max())


def test_a_network_without_dense_layers_is_refused() -> None:
    graph = Graph()
    y = graph.node("Relu", graph.input((1, 8), np.float32))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)], [(1, 8)]))
    with pytest.raises(ModelError, match="no dense layer with constant weights"):
        quantize(model, numbers(2, 1, 8), scheme="dynamic")
