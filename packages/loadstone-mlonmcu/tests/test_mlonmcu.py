# SPDX-License-Identifier: Apache-2.0
"""MLonMCU's flow on its target host_x86, whose own postprocess compares the outputs with
LiteRT's."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loadstone.runtime import device
from tests.compiled import golden, network
from tests.hosts.partial import tflite_with

pytest.importorskip("mlonmcu", reason="MLonMCU is absent: see the README.md")

START = "from loadstone_mlonmcu.command import start; start()"
COMMAND = [sys.executable, "-W", "ignore", "-c", START]
FILES = {"resnet8": "mlpt_resnet8_int8.tflite", "ad": "mlpt_ad_int8.tflite"}
SAMPLES = 2
EXACT = "allclose(atol=0.0,rtol=0.0)"
VALIDATED = (
    "--platform mlif -f validate_new -c gen_data.fill_mode=file -c gen_data.file=auto "
    f"-c gen_data.number={SAMPLES} -c gen_ref_data.mode=file -c gen_ref_data.file=auto "
    "-c set_inputs.interface=rom -c get_outputs.interface=stdout_raw --post validate_outputs "
    f"-c validate_outputs.validate_metrics={EXACT}"
).split()


@pytest.fixture(scope="module")
def home(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with two networks and samples of their golden outputs."""
    folder = tmp_path_factory.mktemp("mlonmcu")
    run("environment", str(folder / "home"))
    for name, file in FILES.items():
        (folder / f"{name}.tflite").write_bytes((shared / "models" / file).read_bytes())
        x, y = golden(shared, file, SAMPLES)
        np.savez(folder / f"{name}.npz", in0=x[0], out0=y[0])
        words = [str(folder / f"{name}.{kind}") for kind in ("tflite", "npz")]
        run("model", *words, "--home", str(folder / "home"))
    return folder / "home"


def run(*words: str, home: Path | None = None, status: int = 0) -> str:
    env = {**os.environ, "MLONMCU_HOME": str(home), "LOADSTONE_DEVICE": ""}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        [*COMMAND, *words], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def report(home: Path, *models: str) -> dict[str, dict[str, str]]:
    """MLonMCU's rows by model."""
    words = ["flow", "run", *models, "-b", "loadstone", "-t", "host_x86", *VALIDATED]
    run(*words, "--parallel", "2", home=home)
    with (home / "temp/sessions/latest/report.csv").open() as file:
        return {row["Model"]: row for row in csv.DictReader(file)}


def cycles(shared: Path, file: str) -> int:
    """Of one sample, by the Python runtime."""
    artifact = network(shared, file, "vtaq-1x16x16").artifact
    with device.open("sim") as opened:
        session = opened.load(artifact)
        session.run(golden(shared, file, 1)[0])
        return session.counters.cycles


def test_mlonmcu_validates_networks_side_by_side(home: Path, shared: Path) -> None:
    rows = report(home, *FILES)
    for name, file in FILES.items():
        assert rows[name][EXACT] == f"{SAMPLES}/{SAMPLES} (100%)"
        assert int(rows[name]["Total Cycles"]) == SAMPLES * cycles(shared, file)


def test_a_wrong_output_is_found(home: Path) -> None:
    reference = home / "models/resnet8/output/1_0.bin"
    right = reference.read_bytes()
    reference.write_bytes(bytes([right[0] ^ 1]) + right[1:])
    try:
        assert report(home, "resnet8")["resnet8"][EXACT] == f"1/{SAMPLES} (50%)"
    finally:
        reference.write_bytes(right)


def test_mistakes_are_one_line(home: Path, tmp_path: Path) -> None:
    model = str(home.parent / "ad.tflite")
    np.savez(tmp_path / "half.npz", in0=np.zeros((1, 1, 640), np.int8))
    new = tmp_path / "new"
    for words, why in (
        (["model", model, str(tmp_path / "half.npz"), "--home", str(new)], "has no array out0"),
        (["environment", str(home)], "there is an environment.yml already"),
        (["model", model, str(tmp_path / "none.npz"), "--home", str(home)], "none.npz"),
        (["model", str(tmp_path / "none.tflite"), "x.npz", "--home", str(home)], "none.tflite"),
    ):
        said = run(*words, status=1)
        assert why in said
        assert len(said.splitlines()) == 1
    assert not new.exists()  # nothing of a model whose samples do not do


def test_a_damaged_artifact_is_refused_by_the_program(home: Path) -> None:
    report(home, "ad")
    (program,) = (home / "temp/sessions/latest/runs").rglob("bin/generic_mlonmcu")
    (artifact,) = program.parents[2].glob("model.lds")
    artifact.write_bytes(artifact.read_bytes()[:-1])
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0x10
    assert "loadstone: " in done.stdout
    assert done.stdout.endswith("MLONMCU EXIT: 16\n")


def test_a_network_with_steps_outside_the_runtime_says_what_to_do(home: Path) -> None:
    folder = home / "models/sine"
    folder.mkdir()
    (folder / "sine.tflite").write_bytes(tflite_with("SIN"))
    (folder / "definition.yml").write_text(
        '{"network_parameters": {"input_nodes": [], "output_nodes": []}}'
    )
    words = ["flow", "build", "sine", "-b", "loadstone", "-t", "host_x86", "--platform", "mlif"]
    assert "steps are no part of the runtime" in run(*words, home=home, status=1)
