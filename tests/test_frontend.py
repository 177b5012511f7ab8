"""frontend/__init__.py: which file is which. Mutilated files give a ModelError or a graph, never a traceback or a signal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import ModelError
from loadstone.frontend import import_model, load
from tests.conftest import ROOT

#: Runs in a process of its own: a signal is then a result, not the end of the tests. Prints one line per outcome.
MUTILATE = """
import sys
from pathlib import Path
import numpy as np
from loadstone.errors import ModelError
from loadstone.frontend import load
from loadstone.partition import partition

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
    command = [sys.executable, "-c", MUTILATE, str(shared / "models"), str(scratch), suffix, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={"PYTHONPATH": str(ROOT / "python")}, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == "", done.stderr[-2000:]
    outcomes = done.stdout.split()
    assert len(outcomes) == count
    return {outcome: outcomes.count(outcome) for outcome in set(outcomes)}


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_mutilated_files_are_refused_in_one_line_or_read(shared: Path, tmp_path: Path, suffix: str) -> None:
    outcomes = mutilated(shared, tmp_path, suffix, 24)
    print(suffix, outcomes)
    assert outcomes["ModelError"] >= 6


@pytest.mark.full
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
    with pytest.raises(ModelError, match=r"unknown kind of model \.pb: Loadstone reads \.tflite, \.onnx and \.pt2"):
        load(other)


def test_a_tflite_file_is_known_by_its_bytes(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes((shared / "models" / "tflm_micro_speech.tflite").read_bytes())
    assert str(import_model(path)["main"].attrs["loadstone.numerics"]) == "tflite"


def test_a_module_is_taken_as_it_is(shared: Path) -> None:
    module = import_model(shared / "models" / "tflm_micro_speech.tflite")
    assert import_model(module) is module


def test_the_numerics_of_a_model_are_those_of_its_format(shared: Path) -> None:
    for file, numerics in {
        "mlpt_kws_int8.tflite": "tflite",
        "coral_mnv1_0.25_128_u8.tflite": "tflite_uint8",
        "coral_tf2_mnv2_1.0_224_ptq.tflite": "tflite",  # uint8 at its edges only
        "mlonmcu_micro_kws_m_qdq.onnx": "onnx",
    }.items():
        assert str(load(shared / "models" / file)["main"].attrs["loadstone.numerics"]) == numerics, file
