# SPDX-License-Identifier: Apache-2.0
"""quantization/pipeline.py: networks are quantized, keep their accuracy, and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import loadstone
from loadstone import graph
from loadstone.cli import main
from loadstone.commands.vectors import of_artifact
from loadstone.demo import Digits, load_digits, network_path
from loadstone.numerics import Rounding
from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import quantize_prepared
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.float_models import images, runner, small_onnx
from tests.onnx_builder import session
from tests.repeat import times


@pytest.fixture(scope="module")
def digits() -> Digits:
    pytest.importorskip("sklearn")
    return load_digits()


def onnx_scores(model: Path, digits: Digits) -> Any:
    """The meaning of the file: ONNX Runtime without optimizations."""
    opened = session(model)
    return np.stack([opened.run(None, {"image": image[None]})[0] for image in digits.test_images])


def accuracy(scores: Any, digits: Digits) -> float:
    return float(
        (scores.reshape(len(digits.test_labels), -1).argmax(axis=1) == digits.test_labels).mean()
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("scheme", "device", "points"), [("affine", "vtaq-1x16x16", 0.5), ("pow2", "vta-pynq", 1.5)]
)
def test_digits_lose_little_and_equal_onnx_runtime(
    digits: Digits, tmp_path: Path, scheme: str, device: str, points: float
) -> None:
    """Called as the package, which is the function as well; the file and the module are the same
    network."""
    found = loadstone.quantize(
        network_path(),
        digits.train_images[:128, None],
        labels=digits.train_labels[:128],
        scheme=scheme,
    )
    assert found.report["top1"] >= 0.98
    found.save(tmp_path / "digits.onnx")
    images = digits.test_images[:, None]
    (scores,) = loadstone.compile(tmp_path / "digits.onnx", device).run(images)
    assert (
        accuracy(scores, digits)
        >= accuracy(onnx_scores(network_path(), digits), digits) - points / 100
    )
    assert (
        np.mean(scores != onnx_scores(tmp_path / "digits.onnx", digits)) <= 1e-3
    )  # its sums are float32
    (again,) = loadstone.compile(found.module, device).run(images[:40])
    np.testing.assert_array_equal(again, scores[:40])


@pytest.mark.full
def test_powers_of_two_run_on_vta_as_it_is(digits: Digits) -> None:
    """Strict: nothing that VTA's hardware does otherwise. Every instruction of every layer, by the
    reference, byte for byte."""
    found = loadstone.quantize(network_path(), digits.train_images[:32, None], scheme="pow2")
    compiled = loadstone.compile(found.module, "vta-pynq")
    computed = [
        row
        for row in compiled.explain()
        if row["kind"] not in ("quantize", "dequantize", "transpose", "reshape")
    ]
    assert len(computed) >= 5
    assert {row["where"] for row in computed} == {"vta"}
    config = load_config("vta-pynq")
    vectors = of_artifact(compiled.artifact, config)  # on the simulator, which is strict for VTA
    assert vectors
    for vector in vectors:
        memory = DramBytes(vector.dram_in.copy(), base=vector.dram_base)
        Machine(config, [memory]).run(vector.insns)
        np.testing.assert_array_equal(memory.data, vector.dram_out())
        assert vector.out.size > 0


def test_convolutions_round_half_up_where_that_was_asked_for(tmp_path: Path) -> None:
    """In the module, and in the file, which every reader of ONNX understands: a tail of 4 cycles on
    VTA as it is, where ties to even take 11."""
    even, up = (
        quantize_prepared(runner(), images(8), Options(scheme="pow2", half_up=half_up))
        for half_up in (False, True)
    )
    up.save(tmp_path / "up.onnx")
    found = {}
    for name, model in (("even", even.module), ("up", up.module), ("file", tmp_path / "up.onnx")):
        compiled = loadstone.compile(model, "vta-pynq")
        rounded = {o.rounding for o in compiled.graph.operators if isinstance(o, graph.Conv2D)}
        found[name] = (rounded, sum(program_cycles(compiled.artifact, compiled.device)))
    assert found["even"][0] == {Rounding.FLOAT32}
    assert found["up"][0] == found["file"][0] == {Rounding.SINGLE}
    assert found["up"][1] < 0.9 * found["even"][1]


@pytest.mark.full
def test_the_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    assert main(["demo", "-o", str(tmp_path)]) == 0
    assert "scores with ONNX Runtime's" in capsys.readouterr().out
    assert (tmp_path / "timeline.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "digits.lds").is_file()


@pytest.mark.full
def test_repairs_are_worth_their_lines() -> None:
    """Each method with and without repairs, on a network whose channels differ: never worse, in sum
    much better."""
    ratios = []
    for seed in range(times(2, 3)):
        bare = Options(method="minmax", equalize=False, compensate=False, correct=False)
        plain, repaired = (
            quantize_prepared(runner(seed), images(32), options).report["output_sqnr_db"][0]
            for options in (bare, Options(method="minmax"))
        )
        ratios.append(repaired - plain)
    assert min(ratios) > -0.5
    assert np.mean(ratios) > 1.0


@pytest.mark.parametrize("scheme", ["affine", "symmetric"])
@pytest.mark.parametrize("method", ["minmax", "expected", "percentile", "mse", "entropy"])
def test_every_method_gives_a_good_network(method: str, scheme: str) -> None:
    report = quantize_prepared(runner(), images(32), Options(method=method, scheme=scheme)).report
    assert (report["method"], report["scheme"]) == (method, scheme)
    assert report["output_sqnr_db"][0] > 22


def test_per_tensor_weights_cost_something() -> None:
    ratios = [
        quantize_prepared(runner(), images(16), Options(per_channel=per_channel)).report[
            "output_sqnr_db"
        ][0]
        for per_channel in (True, False)
    ]
    assert ratios[0] > ratios[1]


def test_the_command_writes_the_model_and_the_page(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = samples.parent
    np.savez(folder / "labels.npz", labels=np.arange(12) % 5)
    words = [
        "quantize",
        str(folder / "small.onnx"),
        "--data",
        str(samples),
        "--labels",
        str(folder / "labels.npz"),
    ]
    assert (
        main([*words, "-o", str(folder / "out.onnx"), "--report", str(folder / "report.html")]) == 0
    )
    text = capsys.readouterr().out
    assert "signal to noise" in text
    assert "top-1" in text
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert session(folder / "out.onnx").get_inputs()[0].name == "in0"
    assert (
        main(
            [
                *words[:4],
                "-o",
                str(folder / "out.onnx"),
                "--report",
                str(folder / "report.json"),
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "report.json").read_text())


@pytest.mark.full
def test_compile_quantizes_a_float_model_with_data(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Float model in, simulator's outputs out: those of the exported file, up to a step."""
    folder = samples.parent
    assert (
        main(
            [
                "compile",
                str(folder / "small.onnx"),
                "--data",
                str(samples),
                "-t",
                "vtaq-1x16x16",
                "-o",
                str(folder / "small.lds"),
            ]
        )
        == 0
    )
    assert (
        main(
            [
                "quantize",
                str(folder / "small.onnx"),
                "--data",
                str(samples),
                "-o",
                str(folder / "out.onnx"),
            ]
        )
        == 0
    )
    capsys.readouterr()
    tested = images(4, seed=5)
    np.savez(folder / "tested.npz", in0=tested)
    assert (
        main(
            [
                "run",
                str(folder / "small.lds"),
                "--inputs",
                str(folder / "tested.npz"),
                "-o",
                str(folder / "found.npz"),
            ]
        )
        == 0
    )
    opened = session(folder / "out.onnx", optimize=True)
    wanted = np.stack([opened.run(None, {"in0": image})[0] for image in tested])
    found = np.load(folder / "found.npz")["out0"]
    assert np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()


def half(model: bytes) -> bytes:
    """The same with float16 weights, inputs and outputs."""
    found = onnx.load_from_string(model)
    for entry in found.graph.initializer:
        if entry.data_type == onnx.TensorProto.FLOAT:
            entry.CopyFrom(
                numpy_helper.from_array(numpy_helper.to_array(entry).astype(np.float16), entry.name)
            )
    for value in (*found.graph.input, *found.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return bytes(found.SerializeToString())


def test_names_with_dots_are_kept(tmp_path: Path) -> None:
    """PyTorch's exporter names tensors input.1, output.2."""
    model = onnx.load_model_from_string(small_onnx())
    fresh = {model.graph.input[0].name: "input.1", model.graph.output[0].name: "output.2"}
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [fresh.get(name, name) for name in names]
    model.graph.input[0].name, model.graph.output[0].name = fresh.values()
    onnx.save(model, tmp_path / "dots.onnx")
    loadstone.quantize(tmp_path / "dots.onnx", images(4)).save(tmp_path / "int8.onnx")
    graph = onnx.load(tmp_path / "int8.onnx").graph
    assert [entry.name for entry in (*graph.input, *graph.output)] == ["input.1", "output.2"]


@pytest.mark.full
def test_half_precision_keeps_its_type(samples: Path) -> None:
    """float16 in and out, in the exported file and on the device, the same integers between."""
    folder = samples.parent
    (folder / "half.onnx").write_bytes(half(small_onnx()))
    found = loadstone.quantize(folder / "half.onnx", images(12).astype(np.float16))
    assert found.report["output_sqnr_db"][0] > 30
    found.save(folder / "out.onnx")
    opened = session(folder / "out.onnx", optimize=True)
    assert {entry.type for entry in (*opened.get_inputs(), *opened.get_outputs())} == {
        "tensor(float16)"
    }
    tested = images(4, seed=5).astype(np.float16)
    (scores,) = loadstone.compile(folder / "out.onnx", "vtaq-1x16x16").run(tested)
    wanted = np.stack([opened.run(None, {"in0": image})[0] for image in tested])
    assert scores.dtype == wanted.dtype == np.float16
    np.testing.assert_allclose(
        scores.astype(np.float32),
        wanted.astype(np.float32),
        atol=0.02 * float(np.abs(wanted).max()),
    )
