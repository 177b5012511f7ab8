# SPDX-License-Identifier: Apache-2.0
"""`loadstone compile`: what it says of a model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.commands.compile import summary
from loadstone.commands.explained import table
from loadstone.compiler import Compiled
from loadstone.prove.certificate import require_proof
from loadstone.prove.proof import Proof
from loadstone.prove.verdict import Status
from loadstone.relax.c_math import MATH
from tests.certificates import verdict
from tests.float_models import images, small_onnx
from tests.onnx_builder import Graph
from tests.test_proof_campaign import small_network


def quantized(folder: Path, *extra: str) -> str:
    """A dense layer, and behind it operators of reals."""
    graph, random = Graph(), np.random.default_rng(0)
    x = graph.dequantize(graph.input((1, 16), np.int8), 0.05, 3)
    weights = graph.constant(random.integers(-127, 128, (16, 10)).astype(np.int8))
    y = graph.node("MatMul", x, graph.dequantize(weights, 0.01, 0))
    y = graph.dequantize(graph.quantize(y, 0.05, -5), 0.05, -5)
    for kind in extra:
        y = graph.node(kind, y)
    (folder / "q.onnx").write_bytes(graph.save([(y, np.float32)]))
    return str(folder / "q.onnx")


def real(folder: Path) -> str:
    graph = Graph()
    weights = graph.constant(np.ones((16, 10), np.float32))
    y = graph.node("MatMul", graph.input((1, 16), np.float32), weights)
    (folder / "f.onnx").write_bytes(graph.save([(y, np.float32)]))
    return str(folder / "f.onnx")


def compiled(*words: str) -> int:
    return main(["compile", *words, "-t", "vtaq-1x16x16"])


def test_the_summary_says_that_it_runs_in_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled(quantized(tmp_path, "Exp"), "-o", f"{tmp_path}/m.lds", "--require-c") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  runs in C      yes"


def test_what_needs_python_is_said_and_refused_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(MATH, "atanh")  # all that ONNX has is written in C
    graph = Graph()
    x = graph.dequantize(graph.input((1, 16), np.int8), 0.05, 3)
    wide = graph.node("Atanh", x)
    (tmp_path / "k.onnx").write_bytes(graph.save([(wide, np.float32)]))
    words = [f"{tmp_path}/k.onnx", "-o", f"{tmp_path}/m.lds"]
    assert compiled(*words) == 0
    assert "  runs in C      no: 1 step needs Python: " in capsys.readouterr().out
    (tmp_path / "m.lds").unlink()
    assert compiled(*words, "--require-c") == 2
    assert "--require-c: no: 1 step needs Python" in capsys.readouterr().err
    assert not (tmp_path / "m.lds").exists()


def test_a_float_model_is_one_line_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [real(tmp_path), "-o", f"{tmp_path}/m.lds"]
    assert compiled(*words) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "--data SAMPLES.npz" in line
    assert compiled(*words, "--float") == 0


def test_rows_have_shapes_products_and_cycles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [quantized(tmp_path), "-o", f"{tmp_path}/m.lds", "--json", "--explain"]
    assert compiled(*words) == 0
    rows = json.loads(capsys.readouterr().out)["explain"]
    (dense,) = [row for row in rows if row["kind"] == "dense"]
    assert (dense["shape"], dense["macs"]) == ([1, 10], 160)
    assert 0 < dense["compute_busy_cycles"] < dense["cycles"]
    host = next(row for row in rows if row["where"] == "host")
    assert host["cycles"] is host["compute_busy_cycles"] is None
    assert "1x10" in table(rows)


def test_cycles_are_simulated_only_where_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Compiled] = []
    explain = Compiled.explain
    monkeypatch.setattr(Compiled, "explain", lambda self: asked.append(self) or explain(self))
    words = [quantized(tmp_path), "-o", f"{tmp_path}/m.lds"]
    assert compiled(*words) == 0
    assert not asked
    assert "switches: " not in capsys.readouterr().out
    assert compiled(*words, "--explain") == 0
    assert asked
    assert re.search(
        r"^switches: 1 program\(s\); [\d,]+ cycles at most", capsys.readouterr().out, re.M
    )


def test_long_names_are_cut_in_the_middle() -> None:
    report = {
        **dict.fromkeys(("operators", "samples", "instructions", "programs", "arena_bytes"), 1),
        **dict.fromkeys(("arena_sum_bytes", "arena_bound_bytes"), 1),
        "artifact": "m.lds",
        "model": "m",
        "operators_by_place": {"host": 1},
        "seconds": {},
        "regions_bytes": {"constants": 1, "micro-ops": 1},
        "operators_on_host": ["model/first/" + "x" * 80 + "/last"],
        "steps_in_python": [],
    }
    line = next(row for row in summary(report).splitlines() if "on the host" in row)
    assert "model/first/" in line
    assert line.endswith("/last")


def test_integers_for_a_device_of_real_numbers_are_refused_or_explained(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(small_onnx())
    np.savez(tmp_path / "x.npz", in0=images(8))
    words = ["--target", "vtab-1x8x8", "-o", str(tmp_path / "net.lds")]
    data = ["--data", str(tmp_path / "x.npz")]
    for more in (data, [*data, "--scheme", "pow2"]):
        assert main(["compile", str(tmp_path / "net.onnx"), *words, *more]) == 2
        assert "vtab-1x8x8 computes on real numbers" in capsys.readouterr().err
    assert main(["compile", str(shared / "models/mlpt_ad_int8.tflite"), *words]) == 0
    assert "none of them goes there" in capsys.readouterr().out.splitlines()[-1]
    assert main(["compile", str(tmp_path / "net.onnx"), *words]) == 0
    assert "goes there" not in capsys.readouterr().out


def test_what_quantizing_cost_is_said_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.onnx").write_bytes(small_onnx())
    np.savez("x.npz", in0=images(8))
    words = ["compile", "small.onnx", "-t", "vtaq-1x16x16", "--data"]
    assert main([*words, "x.npz", "--save-quantized", "int8.onnx"]) == 0
    said = capsys.readouterr().out
    assert re.search(
        r"  quantized      affine, with 8 samples; signal to noise of the outputs \d+\.\d dB\n",
        said,
    )
    assert "warning" not in said
    compare = ["compare", "small.lds", "--inputs", "x.npz", "--against"]
    assert main([*compare, "int8.onnx"]) == 0
    assert "all equal" in capsys.readouterr().out
    np.savez("one.npz", in0=images(1))
    assert main([*words, "one.npz"]) == 0
    assert "  warning        1 sample: every range is that of this one" in capsys.readouterr().out
    assert main([*words, "one.npz", "--json"]) == 0
    quantization = json.loads(capsys.readouterr().out)["quantization"]
    assert quantization["samples"] == 1
    assert len(quantization["sample_faults"]) == 1
    assert main(["compile", "int8.onnx", "-t", "vtaq-1x16x16", "--save-quantized", "a.onnx"]) == 2
    assert "needs samples: --data SAMPLES.npz" in capsys.readouterr().err
    assert main([*words, "x.npz", "--save-quantized", "absent/a.onnx"]) == 2
    assert "absent is no folder" in capsys.readouterr().err


def test_layers_stay_float_until_the_outputs_are_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.onnx").write_bytes(small_onnx())
    np.savez("x.npz", in0=images(8))
    words = ["compile", "small.onnx", "-t", "vtaq-1x16x16", "--data", "x.npz"]
    assert main([*words, "--keep-float", "auto"]) == 0
    assert "kept float" not in capsys.readouterr().out, "it is good as it is"
    monkeypatch.setattr("loadstone.quantization.mixed.GOOD_DB", 50.0)
    assert main([*words, "--keep-float", "auto"]) == 0
    said = capsys.readouterr().out
    line = re.search(r"  kept float     (.*); ([\d,]+) cycles of the device's clock", said)
    assert line is not None
    assert all(name in said for name in line[1].split(", "))
    assert main([*words, "--keep-float", "auto", "--json"]) == 0
    quantization = json.loads(capsys.readouterr().out)["quantization"]
    assert quantization["host"] == line[1].split(", ")
    assert quantization["host_cycles"] == int(line[2].replace(",", "")) > 0
    assert quantization["output_sqnr_db"][0] > 45
    budget = ["--keep-float", "2.5", "--host", "cortex-m4@100", "--json"]
    assert main([*words, *budget]) == 0
    bought = json.loads(capsys.readouterr().out)["quantization"]
    assert 0 < bought["host_cycles"] <= 2.5e5
    assert bought["host_of"] == "cortex-m4@100"
    assert main([*words, *budget[:-1]]) == 0
    assert "cycles of cortex-m4@100; " in capsys.readouterr().out
    assert main([*words, "--keep-16", "auto"]) == 0
    line = re.search(
        r"  kept 16 bits   (.*); [\d,]+ cycles .*; \+([\d.]+) dB", capsys.readouterr().out
    )
    assert line is not None
    assert line[1].split(", ") == quantization["host"]
    assert float(line[2]) > 3
    assert main([*words, "--keep-16", "auto", "--keep-float", "auto"]) == 2
    assert "two ways for the same layers: give one of them" in capsys.readouterr().err
    assert main([*words[:4], "--keep-float", "auto"]) == 2
    assert "keep_float is an option of quantization, which needs samples" in capsys.readouterr().err


def test_a_model_is_proved_as_it_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, proof, output = (str(tmp_path / name) for name in ("n.tflite", "p.json", "n.lds"))
    Path(model).write_bytes(small_network())
    words = ["compile", model, "--target", "vtaq-1x16x16", "-o", output, "--prove", proof]
    assert main(words) == 0
    assert require_proof(proof, output) == Artifact.load(output)
    Path(output).unlink()
    assert main([*words, "--format", "litert"]) == 2
    assert "--prove" in capsys.readouterr().err
    assert main([*words, "--data", "samples.npz"]) == 2
    assert "--data makes another one" in capsys.readouterr().err
    assert not Path(output).exists()


def test_what_is_not_proved_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, proof, output = (str(tmp_path / name) for name in ("n.tflite", "p.json", "n.lds"))
    Path(model).write_bytes(small_network())
    monkeypatch.setattr(Proof, "attempt", lambda *_, **__: verdict(Status.NOT_PROVED))
    words = ["compile", model, "--target", "vtaq-1x16x16", "-o", output, "--prove", proof]
    assert main(words) == 2
    assert "--prove: not proved: " in capsys.readouterr().err
    assert not Path(output).exists()
    assert not Path(proof).exists()
