# SPDX-License-Identifier: Apache-2.0
"""frontend/__init__.py: which file is which. Mutilated files give a ModelError or a graph, never a
traceback or a signal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.errors import ModelError
from loadstone.frontend import Canonical, Reading, import_model, load
from loadstone.passes.log import script
from tests import onnx_builder, tflite_builder
from tests.conftest import ROOT
from tests.relax_text import FOLDER, compare_text
from tests.repeat import more

#: Runs in a process of its own: a signal is then a result, not the end of the tests. Prints one
#: line per outcome.
MUTILATE = """
import sys
from pathlib import Path
import numpy as np
from loadstone.errors import ModelError
from loadstone.frontend import load
from loadstone.partition.eager import partition

folder, scratch, suffix, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
files = sorted(path for path in folder.glob(f"*int8{suffix}") if path.stat().st_size < 450_000)
files += sorted(folder.glob(f"*micro*{suffix}"))
for seed in range(count):
    draw = np.random.default_rng(seed)
    source = files[seed % len(files)]
    data = bytearray(source.read_bytes())
    if seed % 4 == 0:
        data = data[: draw.integers(len(data))]
    elif seed % 4 == 1:
        start, length = draw.integers(len(data)), draw.integers(1, 300)
        data[start : start + length] = bytes(len(data[start : start + length]))
    else:
        for _ in range(draw.integers(1, 12)):
            ends = draw.random() < 0.5  # where headers and tables lie
            place = draw.integers(3000) * draw.choice([1, -1]) if ends else draw.integers(len(data))
            data[place] ^= 1 << draw.integers(8)
    path = scratch / source.name
    path.write_bytes(bytes(data))
    try:
        partition(load(path), [], source.name)
        print("graph")
    except ModelError as error:
        assert "\\n" not in str(error), error
        assert len(str(error)) < 800, error
        print("ModelError")
"""


def mutilated(shared: Path, scratch: Path, suffix: str, count: int) -> dict[str, int]:
    """Outcomes of `count` spoiled copies of the small models of one format."""
    command = [
        sys.executable,
        "-c",
        MUTILATE,
        str(shared / "models"),
        str(scratch),
        suffix,
        str(count),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env={"PYTHONPATH": str(ROOT / "python")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == "", done.stderr[-2000:]
    outcomes = done.stdout.split()
    assert len(outcomes) == count
    return {outcome: outcomes.count(outcome) for outcome in set(outcomes)}


@pytest.mark.full
@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_mutilated_files_are_refused_in_one_line_or_read(
    shared: Path, tmp_path: Path, suffix: str
) -> None:
    outcomes = mutilated(shared, tmp_path, suffix, 24)
    print(suffix, outcomes)
    assert outcomes["ModelError"] >= 6


@pytest.mark.full
@more
@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_many_mutilated_files(shared: Path, tmp_path: Path, suffix: str) -> None:
    outcomes = mutilated(shared, tmp_path, suffix, 400)
    print(suffix, outcomes)
    assert outcomes["ModelError"] >= 100


def test_a_missing_file_and_a_file_of_another_kind_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.tflite: cannot be read: No such file"):
        load(tmp_path / "nowhere.tflite")
    other = tmp_path / "model.pb"
    other.write_bytes(b"0123456789")
    with pytest.raises(
        ModelError, match=r"unknown kind of model \.pb: Loadstone reads \.tflite, \.onnx, \.pt2 and"
    ):
        load(other)


def test_a_tflite_file_is_known_by_its_bytes(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes((shared / "models" / "tflm_micro_speech.tflite").read_bytes())
    assert str(import_model(path)["main"].attrs["loadstone.numerics"]) == "tflite"


def test_a_module_is_taken_as_it_is(shared: Path) -> None:
    module = import_model(shared / "models" / "tflm_micro_speech.tflite")
    assert import_model(module) is module


def test_what_was_loaded_is_not_loaded_again(shared: Path) -> None:
    module = load(shared / "models" / "tflm_micro_speech.tflite")
    assert load(Canonical(module)) is module
    with pytest.raises(
        ModelError, match="shapes, inputs, outputs, rotate and weights4 are options of model files"
    ):
        load(Canonical(module), Reading(outputs=("y",)))


def test_the_numerics_of_a_model_are_those_of_its_format(shared: Path) -> None:
    for file, numerics in {
        "mlpt_kws_int8.tflite": "tflite",
        "coral_mnv1_0.25_128_u8.tflite": "tflite_uint8",
        "coral_tf2_mnv2_1.0_224_ptq.tflite": "tflite",  # uint8 at its edges only
        "mlonmcu_micro_kws_m_qdq.onnx": "onnx",
    }.items():
        assert (
            str(load(shared / "models" / file)["main"].attrs["loadstone.numerics"]) == numerics
        ), file


# --------------------------------------------------------------------------------------------------
# Float networks of every format go into the quantizer (PyTorch's: test_torch.py)
# --------------------------------------------------------------------------------------------------

WEIGHTS = (
    np.random.default_rng(5).normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
    np.linspace(-0.4, 0.4, 8, dtype=np.float32),
)
HEAD = (
    np.random.default_rng(6).normal(0, 0.4, (5, 8)).astype(np.float32),
    np.linspace(0.3, -0.3, 5, dtype=np.float32),
)
SIMPLE = {"method": "minmax", "equalize": False, "compensate": False, "correct": False}


def float_tflite() -> bytes:
    """Images (1, 9, 11, 3): convolution with relu, mean, dense."""
    graph = tflite_builder.Graph()
    x = graph.input((1, 9, 11, 3), np.float32)
    deep, flat, scores = (
        graph.tensor(shape, np.float32) for shape in ((1, 9, 11, 8), (1, 8), (1, 5))
    )
    kernel, bias, head, offset = (
        graph.constant(array) for array in (WEIGHTS[0].transpose(0, 2, 3, 1), WEIGHTS[1], *HEAD)
    )
    graph.operator(
        "CONV_2D",
        [x, kernel, bias],
        [deep],
        padding=tflite_builder.Padding.SAME,
        stride_h=1,
        stride_w=1,
        fused_activation_function=tflite_builder.Activation.RELU,
    )
    graph.operator("MEAN", [deep, graph.constant(np.array([1, 2], np.int32))], [flat])
    graph.operator("FULLY_CONNECTED", [flat, head, offset], [scores])
    return graph.save([scores])


def half_onnx() -> bytes:
    """The same in float16, images (1, 3, 9, 11)."""
    graph = onnx_builder.Graph()
    x = graph.input((1, 3, 9, 11), np.float16)
    kernel, bias, head, offset = (graph.constant(array, np.float16) for array in (*WEIGHTS, *HEAD))
    deep = graph.node(
        "Relu", graph.node("Conv", x, kernel, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    )
    flat = graph.node("Flatten", graph.node("GlobalAveragePool", deep))
    return graph.save([(graph.node("Gemm", flat, head, offset, transB=1), np.float16)], [(1, 5)])


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_float_networks_are_quantized_and_keep_the_type_of_their_edges(
    suffix: str, tmp_path: Path
) -> None:
    tflite = suffix == ".tflite"
    path, run = tmp_path / f"net{suffix}", tflite_builder.run if tflite else onnx_builder.run
    path.write_bytes(float_tflite() if tflite else half_onnx())
    kind, shape = (np.float32, (1, 9, 11, 3)) if tflite else (np.float16, (1, 3, 9, 11))
    images = np.random.default_rng(7).normal(size=(16, *shape)).astype(kind)
    compiled = compile(path, "vtaq-tiny", samples=images[:8], options=SIMPLE)
    (got,) = compiled.run(images[8:])
    want = np.stack([run(path.read_bytes(), [image])[0] for image in images[8:]]).astype(np.float32)
    assert got.dtype == kind
    assert {"conv2d", "mean", "dense"} <= {
        row["kind"] for row in compiled.explain() if row["where"] == "vta"
    }
    noise = 10 * np.log10(
        np.sum(want**2) / np.sum((got.reshape(want.shape).astype(np.float32) - want) ** 2)
    )
    assert noise > 25


def test_a_model_in_memory() -> None:
    """An ONNX ModelProto is what its file is; what is no model is told in one line."""
    graph = onnx_builder.Graph()
    x = graph.input((1, 4), np.int8)
    data = graph.save([(graph.quantize(graph.dequantize(x, 0.5, 0), 0.5, 0), np.int8)])
    proto = onnx.load_from_string(data)
    assert str(load(proto)["main"]) == str(load(import_model(proto))["main"])
    with pytest.raises(ModelError, match="a dict is no model: give the path of a .tflite"):
        load({})  # type: ignore[arg-type]


def test_text_in_text_out(update_golden: bool) -> None:
    """A network in ONNX's own text form, which onnx parses."""
    model = onnx.parser.parse_model((FOLDER / "import.before.txt").read_text(encoding="utf-8"))
    compare_text("import", script(import_model(model)), update_golden)
