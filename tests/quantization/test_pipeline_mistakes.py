# SPDX-License-Identifier: Apache-2.0
"""quantization/pipeline.py: samples, labels and models that cannot be used are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from loadstone.cli import main
from loadstone.errors import LoadstoneError, ModelError
from loadstone.quantization.export_onnx import export_onnx
from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import quantize_module, quantize_prepared
from tests.float_models import images, runner, small_onnx


def failing(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that fails says: one line, exit status 2."""
    assert main(words) == 2, words
    text = capsys.readouterr().err
    assert text.startswith("loadstone: ")
    assert text.count("\n") == 1
    return text


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda arrays: {"in0": arrays[:0]}, "no samples"),
        (lambda arrays: {}, "no array in0"),
        (lambda arrays: {"in0": arrays[..., :-1]}, "has shape"),
        (lambda arrays: {"in0": arrays[:, 0]}, "has shape"),
        (lambda arrays: {"in0": arrays * np.nan}, "NaN"),
        (
            lambda arrays: {
                "in0": np.where(np.arange(4)[:, None, None, None, None] == 2, np.inf, arrays)
            },
            "infinity in sample 2",
        ),
        (lambda arrays: {"in0": arrays * 1e300}, "float32 ends at"),
        (lambda arrays: {"in0": arrays * np.float32(3e37)}, "overflows on these samples"),
        (lambda arrays: {"x": arrays}, "found: x"),
        (lambda arrays: {"in0": arrays, "in1": arrays}, "in1 is too much"),
        (lambda arrays: {"in0": arrays.astype(np.int32)}, "int32"),
        (lambda arrays: {"in0": np.array([None])}, "no .npz file of arrays"),
    ],
)
def test_bad_samples_are_one_line(
    samples: Path, capsys: pytest.CaptureFixture[str], spoil: Any, words: str
) -> None:
    folder = samples.parent
    np.savez(samples, **spoil(images(4).astype(np.float64)))
    assert words in failing(
        [
            "quantize",
            str(folder / "small.onnx"),
            "--data",
            str(samples),
            "-o",
            str(folder / "out.onnx"),
        ],
        capsys,
    )
    assert not (folder / "out.onnx").exists()


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"y": np.arange(7) % 5}, "one integer for each of the 12 samples"),
        ({"y": np.arange(12) / 2}, "one integer for each of the 12 samples"),
        ({"y": np.arange(12)}, "label 5 of sample 5: the first output has classes 0 to 4"),
        ({"y": np.arange(12) - 1}, "label -1 of sample 0"),
        ({"a": np.arange(12), "b": np.arange(12)}, "holds 2 arrays"),
    ],
)
def test_bad_labels_are_one_line(
    samples: Path, capsys: pytest.CaptureFixture[str], labels: dict[str, Any], words: str
) -> None:
    np.savez(samples.parent / "labels.npz", **labels)
    model = str(samples.parent / "small.onnx")
    assert words in failing(
        ["quantize", model, "--data", str(samples), "--labels", str(samples.parent / "labels.npz")],
        capsys,
    )


def changed(change: Any) -> bytes:
    """The small network, spoiled."""
    model = onnx.load_from_string(small_onnx())
    change(model.graph)
    return bytes(model.SerializeToString())


def not_a_number(graph: Any) -> None:
    weights = next(entry for entry in graph.initializer if len(entry.dims) == 4)
    array = numpy_helper.to_array(weights).copy()
    array[0, 0, 0, 0] = np.nan
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda: changed(not_a_number), "not finite"),
        (lambda: changed(lambda graph: setattr(graph.node[3], "op_type", "Det")), "Det"),
        (
            lambda: changed(lambda graph: setattr(graph.node[0], "op_type", "Frobnicate")),
            "Frobnicate",
        ),
        (lambda: small_onnx()[:2000], "not an ONNX file"),
        (
            lambda: export_onnx(
                quantize_prepared(runner(), images(2)).module, ["out"]
            ).SerializeToString(),
            "is quantized already",
        ),
    ],
)
def test_bad_models_are_one_line(
    samples: Path, capsys: pytest.CaptureFixture[str], content: Any, words: str
) -> None:
    (samples.parent / "bad.onnx").write_bytes(content())
    assert words in failing(
        ["quantize", str(samples.parent / "bad.onnx"), "--data", str(samples)], capsys
    )
    assert not (Path("bad.int8.onnx")).exists()


def test_other_mistakes_are_one_line(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = samples.parent
    (folder / "text.npz").write_text("no arrays")
    model, data = str(folder / "small.onnx"), str(samples)
    for words, text in (
        (["quantize", model, "--data", str(folder / "absent.npz")], "No such file"),
        (["quantize", model, "--data", str(folder)], "is a folder"),
        (["quantize", model, "--data", str(folder / "text.npz")], "no .npz file"),
        (["quantize", str(folder / "absent.onnx"), "--data", data], "cannot be read"),
        (["quantize", model, "--data", data, "--keep-float", "-1"], "neither auto nor a number"),
        (
            ["quantize", model, "--data", data, "--keep-16", "2"],
            "milliseconds of which host?",
        ),
        (["quantize", model, "--data", data, "--host", "m4"], "is not NAME@MHZ"),
        (
            ["quantize", model, "--data", data, "-o", str(folder / "absent" / "x.onnx")],
            "is no folder",
        ),
        (["quantize", model, "--data", data, "--report", str(folder / "x.pdf")], "ends with .html"),
        (["compile", model, "-t", "vtaq-tiny", "--method", "mse"], "needs samples"),
        (["compile", model, "-t", "vtaq-tiny", "--data", str(folder / "text.npz")], "no .npz file"),
    ):
        assert text in failing(words, capsys)


def test_names_that_mean_nothing() -> None:
    with pytest.raises(LoadstoneError, match="choose one of affine"):
        quantize_prepared(runner(), images(1), Options(scheme="int4"))
    with pytest.raises(LoadstoneError, match="choose one of minmax"):
        quantize_prepared(runner(), images(1), Options(method="magic"))
    with pytest.raises(LoadstoneError, match="half_up is said with scheme 'affine'"):
        quantize_prepared(runner(), images(1), Options(half_up=True))


def test_a_network_without_weights_is_refused() -> None:
    from loadstone.frontend import onnx as reader
    from loadstone.frontend.rewrites import canonical
    from tests.onnx_builder import Graph

    graph = Graph()
    model = graph.save(
        [(graph.node("Relu", graph.input((1, 8), np.float32)), np.float32)], [(1, 8)]
    )
    with pytest.raises(ModelError, match="nothing to quantize"):
        quantize_module(
            canonical(reader.from_bytes(model, "made by a test")), np.zeros((2, 1, 8), np.float32)
        )
