# SPDX-License-Identifier: Apache-2.0
"""commands/table_sources.py: `loadstone vectors`, `replay` and `asm` for accelerators of plug-ins,
with the examples' devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.backend.plugins import load_plugins
from loadstone.cli import main
from loadstone.compiler import compile
from tests.board.models import convolutions
from tests.conftest import ROOT
from tests.docs.test_example_programs import layers

EXAMPLES = ROOT / "docs/examples"


def read_hex(path: Path) -> dict[int, int]:
    """What $readmemh makes of a text."""
    memory, at = {}, 0
    for word in path.read_text().split():
        if word.startswith("@"):
            at = int(word[1:], 16)
        else:
            memory[at] = int(word, 16)
            at += 1
    return memory


@pytest.mark.full
@pytest.mark.parametrize(
    ("folder", "target", "make"),
    [
        (
            "systolic",
            "systolic -dim=8 -scratchpad_rows=1024 -accumulator_rows=64 -tokens=1",
            convolutions,
        ),
        ("descriptors", "layer-engine", layers),
    ],
)
def test_vectors_of_a_model(
    folder: str,
    target: str,
    make: Callable[[Path], object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make(tmp_path)
    (source,) = tmp_path.glob("*.tflite")
    own = ["--uma-backends", str(EXAMPLES / folder)]
    compile(source, target, plugins=load_plugins([EXAMPLES / folder])).save(tmp_path / "net.lds")
    out = tmp_path / "vectors"
    assert main(["vectors", str(tmp_path / "net.lds"), *own, "--hex", "-o", str(out)]) == 0
    said = capsys.readouterr().out
    (file,) = out.glob("*.npz")
    data = np.load(file)
    assert f"{len(data['insn_offsets'])} instructions" in said
    before, after = (read_hex(file.with_suffix(f".{k}.hex")) for k in ("before", "after"))
    base = int(data["dram_base"])
    assert bytes(before[base + k] for k in range(len(data["dram_in"]))) == data["dram_in"].tobytes()
    code = range(int(data["code_base"]), int(data["code_base"]) + len(data["code"]))
    assert bytes(before[at] for at in code) == data["code"].tobytes()
    assert list(after.values()) == data["out"].tolist()
    words = ["replay", str(out), *own, "--max-error", "0", "--check", "races"]
    assert main(words) == 0
    assert "exact" in capsys.readouterr().out
    # the same program from its vector, and one byte of what it leaves changed
    assert main(["vectors", str(file), *own, "-o", str(tmp_path / "again")]) == 0
    again = np.load(tmp_path / "again" / file.name)
    assert all((again[name] == data[name]).all() for name in data.files)
    np.savez(file, **{**data, "out": data["out"] ^ (np.arange(len(data["out"])) == 3)})
    capsys.readouterr()
    assert main(["replay", str(out), *own]) == 1
    assert "WRONG" in capsys.readouterr().out


POINT = "point pointer=0 address=0x1000\npoint pointer=1 address=0x1100\n"
COPY = POINT + "load vector=2 pointer=0 size=31\nstore vector=2 pointer=1 size=31\n"


def test_text_and_bytes_of_a_plug_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--uma-backends", str(EXAMPLES / "word_fifo"), "--device", "vector-engine -lanes=32"]
    text, code = tmp_path / "copy.txt", tmp_path / "copy.bin"
    text.write_text(COPY)
    np.arange(512, dtype=np.int64).astype(np.uint8).tofile(tmp_path / "memory.bin")
    memory = ["--memory", f"{tmp_path}/memory.bin@0x1000"]
    assert main(["asm", str(text), "-o", str(code), *own]) == 0
    assert main(["disasm", str(code), *own]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "load vector=2 size=31"
    for k, source in enumerate((text, code)):
        out = tmp_path / f"out{k}"
        assert main(["vectors", str(source), *own, *memory, "-o", str(out)]) == 0
        data = np.load(out / "copy.npz")
        assert data["out_regions"].tolist() == [[0x100, 32]]
        assert data["out"].tolist() == list(range(32))
    assert main(["replay", str(out), *own[:2], "--max-error", "0"]) == 0  # the index names it


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["asm", "TEXT", "-o", "x.bin"], "point: address=@arena has no address here"),
        (["vectors", "TEXT", "-o", "x"], "point: address=@arena has no address here"),
        (["vectors", "EMPTY", "-o", "x"], "holds no instruction"),
        (["replay", "FOLDER", "--strict"], "are for VTA's instructions"),
    ],
)
def test_mistakes(
    command: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--uma-backends", str(EXAMPLES / "word_fifo"), "--device", "vector-engine"]
    (tmp_path / "text.txt").write_text("point address=@arena\n")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "good.txt").write_text(COPY)
    memory = tmp_path / "memory.bin"
    memory.write_bytes(bytes(512))
    words = ["--memory", str(memory), "-o", str(tmp_path / "out")]
    assert main(["vectors", str(tmp_path / "good.txt"), *own, *words]) == 0
    paths = {"TEXT": "text.txt", "EMPTY": "empty.txt", "FOLDER": "out", "x": "y", "x.bin": "y.bin"}
    words = [str(tmp_path / paths[word]) if word in paths else word for word in command]
    assert main([*words, *own]) == 2
    assert said in capsys.readouterr().err


def test_vectors_without_their_plug_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = '{"device": {"accelerator": "dla"}, "programs": [{"file": "a.npz"}]}'
    (tmp_path / "index.json").write_text(index)
    assert main(["replay", str(tmp_path)]) == 2
    assert "accelerator 'dla', which no plug-in describes" in capsys.readouterr().err
    assert main(["vectors", str(tmp_path / "index.json"), "--hex", "-o", str(tmp_path)]) == 2
