# SPDX-License-Identifier: Apache-2.0
"""The command line: every command teaches, and every mistake is one line and exit status 2."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone import cli
from loadstone.cli import COMMANDS, main
from loadstone.commands import devices
from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import device_names, load_config
from tests.sample_model import copy_model


def one_line_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Runs a command that must fail like a user's mistake; returns the line."""
    assert status_of(*words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err.strip()


def status_of(*words: str) -> int:
    """Exit status of a command, whether returned or raised by argparse."""
    try:
        return main(words)
    except SystemExit as exit_:
        return int(exit_.code or 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(command, "--help") == 0
    said = capsys.readouterr().out
    examples, usage = said.index("\nexamples:\n"), said.index("\nusage: loadstone")
    assert examples < said.index(f"loadstone {command}", examples) < usage
    headings = [line for line in said.splitlines() if re.fullmatch(r"[a-z][^:]*:", line)]
    options = [line for line in said.splitlines() if re.match(r"  -{1,2}[a-z]", line)]
    assert len(headings) > 2 or len(options) < 5, "many options stand in groups"


def test_no_command_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of() == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "invalid choice: 'nonsense'" in one_line_of(capsys, "nonsense")
    assert "unrecognized arguments: --nonsense" in one_line_of(capsys, "devices", "--nonsense")
    assert "'vta-nope' is neither built in (vta-de10nano, " in one_line_of(
        capsys, "devices", "vta-nope"
    )
    (tmp_path / "two\nlines.json").write_text("{")
    assert "two lines.json" in one_line_of(capsys, "devices", str(tmp_path / "two\nlines.json"))


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("comple", "net.tflite"), "; did you mean compile? (see loadstone --help)"),
        (("devcies",), "; did you mean devices?"),
        (("devices", "--jsn"), "; did you mean --json?"),
        (("compile", "x.tflite", "--taget", "y"), "; --taget is no option; did you mean --target?"),
        (("quantize", "x.onnx", "--data=y", "--scheme", "pow"), "; did you mean pow2?"),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(
    words: tuple[str, ...], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert near in one_line_of(capsys, *words)


@pytest.mark.parametrize("command", ["run", "inspect", "compare", "export"])
def test_a_model_is_compiled_first(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x08:\x9e")
    further = {
        "compare": ("--against", "sim"),
        "export": ("--board", "linux", "-o", str(tmp_path / "out")),
    }
    line = one_line_of(capsys, command, str(path), *further.get(command, ()))
    assert f"not compiled yet: loadstone compile {path} --target DEVICE comes first" in line


def test_devices_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == device_names()
    assert main(["devices", "--json"]) == 0
    assert [load_config(d) for d in json.loads(capsys.readouterr().out)] == [
        load_config(n) for n in device_names()
    ]
    assert main(["devices", "vtaq-4x16x16"]) == 0
    assert (
        "4x16 input by 16x16 weights: 1024 multiply-accumulates a cycle" in capsys.readouterr().out
    )


def test_disasm_and_asm_are_inverse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, binary = tmp_path / "a.txt", tmp_path / "a.bin"
    source.write_text("nop load push(compute)\npop(load) finish\n")
    assert main(["asm", str(source), "-o", str(binary)]) == 0
    assert binary.stat().st_size == 32
    assert main(["disasm", str(binary)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "    0: nop load push(compute)",
        "    1: pop(load) finish",
    ]


def test_asm_and_disasm_as_a_pipe() -> None:
    command = (
        f"echo finish | {sys.executable} -m loadstone asm - -o - | {sys.executable} -m "
        "loadstone disasm -"
    )
    out = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout == "# stdin: 1 instructions for vta-pynq\n    0: finish\n"


def test_mistakes_in_files_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    assert one_line_of(capsys, "disasm", str(bad)) == f"loadstone: {bad}: No such file or directory"
    assert one_line_of(capsys, "disasm", str(tmp_path)) == f"loadstone: {tmp_path}: Is a directory"
    bad.write_bytes(b"\x03" + bytes(30))
    assert one_line_of(capsys, "disasm", str(bad)) == (
        f"loadstone: {bad}: instruction stream of 31 bytes is no multiple of 16: cut after 1 "
        "instructions"
    )
    bad.write_bytes(b"\x03" + bytes(15) + b"\x07" + bytes(15))
    assert one_line_of(capsys, "disasm", str(bad)).startswith(
        f"loadstone: {bad}: instruction 1: opcode 7 is unknown; known are LOAD 0, "
    )
    bad.write_bytes(
        b"\x02" + bytes(14) + b"\xff"
    )  # reserved on a device whose factors are narrower
    assert "instruction 0: GEMM has reserved bit 120 set" in one_line_of(
        capsys, "disasm", str(bad), "--device", "vtaq-tiny"
    )
    copy_model().save(bad)
    assert f"{bad} is for device vtaq-1x16x16 (config hash 0x" in one_line_of(
        capsys, "disasm", str(bad), "--device", "vta-pynq"
    )
    bad.write_text("load inp[0] = dram[0 + x] for x<3 pad top 16\n")
    assert (
        one_line_of(capsys, "asm", str(bad), "-o", "-")
        == f"loadstone: {bad}, line 1: LOAD.y_pad_0=16 does not fit 4 bits [0, 15]"
    )
    bad.write_text("finish\nfinnish\n")
    assert one_line_of(capsys, "asm", str(bad), "-o", str(tmp_path / "out")).startswith(
        f"loadstone: {bad}, line 2: expected one of load, "
    )
    assert not (tmp_path / "out").exists()
    bad.write_bytes(b"finish \xff")
    assert (
        one_line_of(capsys, "asm", str(bad), "-o", "-")
        == f"loadstone: {bad}: is no UTF-8 text: byte 7 is 0xFF"
    )


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    child = subprocess.run(
        [sys.executable, "-m", "loadstone", "devices"],
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert child.stderr == b""
    assert child.returncode == 141


def test_ctrl_c_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(devices, "run", interrupted)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background jobs ignore it
    try:
        assert main(["devices"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "\n"


@pytest.mark.parametrize(
    ("package", "extra"),
    [("tvm", "compiler"), ("distributed", "search"), ("optuna", "search"), ("pyarrow", "search")],
)
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str, extra: str
) -> None:
    def needs_more(_: object) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=f"{package}.core")

    monkeypatch.setattr(devices, "run", needs_more)
    line = one_line_of(capsys, "devices")
    assert f"{package}.core is not installed: pip install 'loadstone[{extra}]'" in line


def test_the_longest_line_is_400_characters_with_the_programs_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = one_line_of(capsys, "run", "x" * 1000, "--inputs", "x.npz")
    assert line.startswith("loadstone: ")
    assert 300 < len(line) <= 400


@pytest.mark.parametrize(
    "error", [ImportError("no datetime"), OSError(4, "cut short", "x"), LoadstoneError("damaged")]
)
def test_what_a_library_makes_of_an_interrupt_is_no_mistake_of_the_user(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """start() ends such a command as Ctrl-C does."""

    def fails(_words: object) -> None:
        raise error

    monkeypatch.setattr(cli, "_check_words", fails)
    assert cli.main(["devices"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(type(error)):
        cli.main(["devices"], lambda: True)
    assert capsys.readouterr().err == ""
