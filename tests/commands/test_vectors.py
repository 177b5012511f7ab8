# SPDX-License-Identifier: Apache-2.0
"""`loadstone vectors`: what cannot be a program, a memory or a vector is one line, and files stay
in their folder. (What is written: vta/simulator/test_vectors.py, test_table_sources.py.)"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import ProgramStep
from loadstone.cli import main
from tests.commands.test_mistakes import refused
from tests.sample_model import copy_model


@pytest.fixture
def model(tmp_path: Path) -> str:
    copy_model().save(tmp_path / "copy.lds")
    return str(tmp_path / "copy.lds")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe load", "p.txt: is no UTF-8 text: byte 0 is 0xFF"),
        (b"finish\nblah", "p.txt, line 2: expected one of load"),
    ],
)
def test_text_that_is_no_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "p.txt").write_bytes(content)
    words = ["vectors", str(tmp_path / "p.txt"), "--device", "vtaq-tiny"]
    assert said in refused([*words, "-o", str(tmp_path / "out")], capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("@0x" + "f" * 16, "must end 1 GiB below 2^64"),
        ("@0x" + "f" * 40, "must end 1 GiB below 2^64"),
        ("@" + "9" * 5000, "--memory"),
        ("@12a", "@12a: No such file"),
    ],
)
def test_memory_somewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, said: str
) -> None:
    (tmp_path / "p.txt").write_text("finish\n")
    (tmp_path / "m").write_bytes(bytes(64))
    words = ["vectors", str(tmp_path / "p.txt"), "--device", "vtaq-tiny", "-o"]
    words += [str(tmp_path / "out"), "--memory", f"{tmp_path}/m{address}"]
    assert said in refused(words, capsys)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ('{"programs": [{"file": 7}]}', "a program without the name of its file"),
        ('{"programs": [{}]}', "a program without the name of its file"),
        ('{"programs": [[]]}', "a program without the name of its file"),
        ('{"device": "x", "programs": [{"file": "v.npz"}]}', "its device is no object"),
        (
            '{"device": {"batch": "x", "block_in": 1}, "programs": [{"file": "v.npz"}]}',
            "device",
        ),
    ],
)
def test_an_index_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], index: str, said: str
) -> None:
    (tmp_path / "index.json").write_text(index)
    assert said in refused(["replay", str(tmp_path)], capsys)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("dram_base", np.int64(-5), "dram_base -5"),
        ("out_regions", np.array([[0, 1 << 62]]), "a region leaves its image"),
        ("out_regions", np.array([[0, 3]]), "out has 2 bytes, out_regions 3"),
        ("regions", np.array([[1 << 40, 64, 0]]), "a region leaves its image"),
    ],
)
def test_a_vector_that_reaches_beyond_its_memory(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    field: str,
    value: np.ndarray,
    said: str,
) -> None:
    arrays: dict[str, Any] = {
        "insns": np.zeros((1, 16), np.uint8),
        "dram_in": np.zeros(64, np.uint8),
    }
    arrays |= {"dram_base": np.int64(0), "out": np.zeros(2, np.uint8)}
    arrays |= {"out_regions": np.array([[0, 2]]), field: value}
    np.savez(tmp_path / "v.npz", **arrays)
    for words in (["replay"], ["vectors", "-o", str(tmp_path / "out")]):
        assert said in refused([*words, str(tmp_path / "v.npz")], capsys)


def test_a_model_without_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = copy_model()
    host = tuple(step for step in model.steps if not isinstance(step, ProgramStep))
    dataclasses.replace(model, steps=host).save(tmp_path / "m.lds")
    words = ["vectors", f"{tmp_path}/m.lds", "-o", str(tmp_path / "out")]
    assert "have no program of a device: all is on the host" in refused(words, capsys)
    assert "--device names none" in refused([*words, "--hex"], capsys)


def test_programs_of_one_name_are_not_written_over_each_other(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["vectors", model, model, "-o", str(tmp_path / "out")]
    assert "two programs are called 'copy_00'" in refused(words, capsys)


def test_a_model_s_name_leads_nowhere(tmp_path: Path) -> None:
    """Files stay in the folder, whatever an artifact says that it is called."""
    dataclasses.replace(copy_model(), name="../../evil").save(tmp_path / "m.lds")
    (tmp_path / "a/b").mkdir(parents=True)
    assert main(["vectors", f"{tmp_path}/m.lds", "-o", f"{tmp_path}/a/b/out"]) == 0
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*evil*")]
    assert [str(path.parent) for path in written] == ["a/b/out"]
    assert main(["replay", f"{tmp_path}/a/b/out"]) == 0
