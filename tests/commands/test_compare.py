# SPDX-License-Identifier: Apache-2.0
"""`loadstone compare`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.compare import digest, one_run
from loadstone.analysis.taps import taps, values
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.runtime import device
from tests.compiled import golden, network
from tests.float_models import images, small_onnx

FILE = "mlpt_ad_int8.tflite"


@pytest.fixture
def folder(shared: Path, tmp_path: Path) -> Path:
    artifact = network(shared, FILE, "vtaq-1x16x16").artifact
    artifact.save(tmp_path / "good.lds")
    region = artifact.regions[0]
    data = bytearray(region.data)
    for at in range(len(data) // 2, len(data) // 2 + 256):
        data[at] ^= 0x40
    regions = (replace(region, data=bytes(data)), *artifact.regions[1:])
    replace(artifact, regions=regions).save(tmp_path / "bad.lds")
    np.savez(tmp_path / "x.npz", in0=golden(shared, FILE, 2)[0][0])
    return tmp_path


def compare(folder: Path, model: str, *words: str) -> int:
    return main(["compare", f"{folder}/{model}.lds", "--inputs", f"{folder}/x.npz", *words])


def test_equal_to_the_network_and_to_the_meaning(
    folder: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for against in (str(shared / "models" / FILE), "reference"):
        assert compare(folder, "good", "--against", against, "--sample", "1") == 0
        assert "all equal" in capsys.readouterr().out


def test_a_flipped_bit_is_found(
    folder: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--against", str(shared / "models" / FILE)]
    assert compare(folder, "bad", *words) == 1
    said = capsys.readouterr().out
    assert "first different in layer functional_1/" in said
    assert compare(folder, "bad", "--against", f"{folder}/good.lds") == 1
    assert capsys.readouterr().out.splitlines()[1] == said.splitlines()[1]
    assert compare(folder, "bad", *words, "--all", "--json") == 1
    layers = json.loads(capsys.readouterr().out)["layers"]
    first = next(layer for layer in layers if layer["different"])
    assert first["layer"] in said
    assert first["different"] <= first["elements"]


def test_what_a_firmware_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines as runtime/layers.c gives them, of the faulty artifact."""
    from loadstone.artifact.format import Artifact

    bad = Artifact.load(folder / "bad.lds")
    inputs = one_run(bad, [np.load(folder / "x.npz")["in0"]], 0)
    lines, seen = [], dict[int, int]()
    with device.open("sim") as opened:
        for tap, value in values(bad, opened, inputs, taps(bad)):
            number = seen[tap.step] = seen.get(tap.step, -1) + 1
            key = number if tap.behind is None else tap.behind
            lines.append(f"loadstone digest {tap.step} {key} {value.size} {digest(value):08x}")
    (folder / "printed.txt").write_text("boot\n" + "\n".join(lines))
    assert compare(folder, "bad", "--against", "sim", "--digests", f"{folder}/printed.txt") == 0
    capsys.readouterr()
    assert compare(folder, "good", "--against", "sim", "--digests", f"{folder}/printed.txt") == 1
    assert "elements differs" in capsys.readouterr().out


def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(folder, "good", "--against", "sim") == 2
    assert "is the device itself" in capsys.readouterr().err
    for atol in ("nan", "-1"):
        assert compare(folder, "good", "--against", "reference", f"--atol={atol}") == 2
        assert f"--atol {atol} is no difference" in capsys.readouterr().err


def test_with_the_float_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.onnx").write_bytes(small_onnx())
    (tmp_path / "other.onnx").write_bytes(small_onnx(1))
    compile(tmp_path / "small.onnx", "vtaq-1x16x16", data=images(8)).save(tmp_path / "good.lds")
    np.savez(tmp_path / "x.npz", in0=images(1))
    words = ["--against", f"{tmp_path}/small.onnx"]
    assert compare(tmp_path, "good", *words) == 0
    said = capsys.readouterr().out
    assert "tensors compared as real numbers, none below 15 dB" in said
    assert "noisiest: " in said
    assert compare(tmp_path, "good", *words, "--min-db", "90") == 1
    assert "first below 90 dB of signal to noise in layer" in capsys.readouterr().out
    assert compare(tmp_path, "good", "--against", f"{tmp_path}/other.onnx") == 1
    assert "in layer n1 (step" in capsys.readouterr().out
    assert compare(tmp_path, "good", *words, "--min-db", "nan") == 2
    assert "--min-db nan is no ratio" in capsys.readouterr().err
