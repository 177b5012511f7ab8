# SPDX-License-Identifier: Apache-2.0
"""`loadstone profile`."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.vta.device.hw_config import load_config
from tests.compiled import network
from tests.float_models import images, small_onnx
from tests.sample_model import copy_model, dense_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    dense_model(load_config("vtaq-1x16x16")).artifact.save(tmp_path / "dense.lds")
    return tmp_path / "dense.lds"


def test_a_table_and_all_files(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: model.with_suffix(f".{name}") for name in ("html", "csv", "perfetto")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert main(["profile", str(model), *words]) == 0
    assert "together: " in capsys.readouterr().out
    assert main(["profile", str(model), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    with files["csv"].open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == [layer["name"] for layer in report["layers"]]
    assert sum(int(line["cycles"] or 0) for line in lines) == report["cycles"]
    assert files["html"].read_text(encoding="utf-8").startswith("<!doctype html>")
    assert files["perfetto"].stat().st_size


def test_inputs_are_run_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_model().save(tmp_path / "copy.lds")
    np.savez(tmp_path / "x.npz", in0=np.zeros((3, 1, 16), np.int8))
    words = ["profile", f"{tmp_path}/copy.lds", "--inputs", f"{tmp_path}/x.npz"]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counted_runs"] == 3
    assert report["counted_cycles_per_run"] == report["cycles"]
    assert main(words) == 0
    assert "over 3 run(s)" in capsys.readouterr().out


def test_the_model_file_tells_kinds_and_multiplications(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    compiled.artifact.save(tmp_path / "r.lds")
    words = ["profile", f"{tmp_path}/r.lds", "--json", "--network"]
    assert main([*words, f"{shared}/models/mlpt_resnet8_int8.tflite"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    wanted = compiled.profile().rows
    assert [(e["kind"], e["macs"]) for e in layers] == [(row.kind, row.macs) for row in wanted]
    assert {"conv2d", "add", "average_pool2d", "dense"} <= {entry["kind"] for entry in layers}
    assert main([*words, f"{shared}/models/mlpt_ad_int8.tflite"]) == 2
    assert "not the same network" in capsys.readouterr().err


def test_mistakes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "net.tflite"]) == 2
    assert "name it with --target" in capsys.readouterr().err
    assert main(["profile", "net.tflite", "--target", "vtaq-tiny", "--network", "net.tflite"]) == 2
    assert "--target compiles it first" in capsys.readouterr().err
    assert main(["profile", str(model), "--device", "sim:vta-pynq"]) == 2
    assert "was compiled for device 'vtaq-1x16x16', not for 'vta-pynq'" in capsys.readouterr().err


def test_what_is_not_known_is_not_said_and_noise_stands_beside_cycles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the network nobody knows which products are the operator's: a max pool moves by
    ones. With the float model and samples each layer has its signal to noise."""
    (tmp_path / "small.onnx").write_bytes(small_onnx())
    compile(tmp_path / "small.onnx", "vtaq-1x16x16", data=images(8)).save(tmp_path / "m.lds")
    np.savez(tmp_path / "x.npz", in0=images(1))
    words = ["profile", f"{tmp_path}/m.lds"]
    assert main(words) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["layer", "where", "kind", "shape", "executed", "cycles"]
    assert "SNR" not in head
    measured = ["--inputs", f"{tmp_path}/x.npz", "--float", f"{tmp_path}/small.onnx"]
    assert main([*words, *measured]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "SNR" in head
    (line,) = [line for line in lines if line.startswith("n5 ")]
    assert re.search(r"\d\d\.\d dB", line)
    assert main([*words, *measured, "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert {row["macs"] for row in layers} == {0}
    assert main([*words, "--network", f"{tmp_path}/small.onnx"]) == 2
    said = capsys.readouterr().err
    assert "small.onnx knows no layer of" in said
    assert "give the quantized network (loadstone compile --save-quantized)" in said
    assert {row["name"] for row in layers if row["sqnr_db"]} > {"n1", "n5", "n6", "n7", "n8"}
    assert main([*words, "--float", f"{tmp_path}/small.onnx"]) == 2
    assert "on samples: --inputs IN.npz" in capsys.readouterr().err
