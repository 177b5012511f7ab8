# SPDX-License-Identifier: Apache-2.0
"""exported_several.py: names, priorities and periods of several networks in one firmware, and what
is refused; tests/board/test_cortex_m.py runs such a firmware."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.commands.exported_several import own_file, own_sample
from loadstone.vta.device.hw_config import load_config
from tests.board.models import gate, island
from tests.board.tools import need
from tests.commands.test_export import make
from tests.further import branches
from tests.sample_model import dense_model
from tests.test_cli import status_of

CONFIG = load_config("vtaq-1x16x16")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = dense_model(CONFIG).artifact
    for name in ("Fast one", "slow", "string"):
        replace(made, name=name).save(f"{name}.lds")
    x = made.tensors[made.inputs[0]]
    np.savez("x.npz", in0=np.ones((2, *x.shape), np.int8))


WORDS = ("export", "Fast one.lds", "slow.lds", "--board", "cortex-m", "-o", "fw")


def table() -> list[list[str]]:
    entries = re.findall(r"^    \{(.*)\},$", Path("fw/networks.c").read_text(), re.MULTILINE)
    return [entry.split(", ") for entry in entries]


def test_the_first_has_the_highest_priority_and_each_runs_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WORDS, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["models"]) == ("Fast one", ["Fast one", "slow"])
    first, second = table()
    assert first[:4] == ['"fast_one"', "fast_one_bytes", "fast_one_bytes_end", "fast_one_session"]
    assert first[6:] == ["NULL", "NULL", "2u", "0ull", "NULL", "NULL"]
    assert second[0] == '"slow"'
    assert second[8:10] == ["1u", "0ull"]
    assert "#define NETWORKS 2\n" in Path("fw/model.h").read_text()


def test_priorities_periods_and_samples_are_those_of_the_words() -> None:
    more = ["--priorities", "3,7", "--periods", "1.5us,20ms", "--sample", "x.npz"]
    assert main([*WORDS, *more, "--sample", "x.npz"]) == 0
    first, second = table()
    assert first[6:10] == ["fast_one_sample_bytes", "fast_one_sample_bytes_end", "3u", "1500ull"]
    assert second[8:10] == ["7u", "20000000ull"]
    assert set(Path("fw/slow_sample.bin").read_bytes()) == {1}


@pytest.mark.full
@pytest.mark.parametrize("board", ["cortex-m", "riscv"])
def test_a_firmware_of_three_builds(board: str, tmp_path: Path) -> None:
    """One with steps in C, one with operators of real numbers, and one whose name a header of C
    has."""
    prefix = {"cortex-m": "arm-none-eabi-", "riscv": "riscv64-linux-gnu-"}[board]
    need(f"{prefix}gcc", f"gcc-{prefix.rstrip('-')}")
    island(tmp_path, CONFIG.name).save("island.lds")
    gate(tmp_path, CONFIG.name).save("gate.lds")
    words = ["export", "island.lds", "gate.lds", "string.lds", "--board", board, "-o", "fw"]
    assert main([*words, "--periods", "5ms,7ms,1s"]) == 0
    entries = table()
    assert [entry[0] for entry in entries] == ['"island"', '"gate"', '"net_string"']
    assert [entry[-2:] for entry in entries] == [
        ["NULL", "island_external"],
        ["&gate_operators", "NULL"],
        ["NULL", "NULL"],
    ]
    make(tmp_path / "fw", "FLAGS=-Werror", compiler=f"{prefix}gcc")


def test_files_and_samples_have_the_name_of_their_model() -> None:
    assert own_file("steps/steps.c", "kws") == "steps/kws_steps.c"
    assert own_file("kws.h", "kws") == "kws.h"
    assert own_sample("sample.bin sample_bytes_end resample.bin", "kws") == (
        "kws_sample.bin kws_sample_bytes_end resample.bin"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--periods", "1ms"], "for each model is wanted, 2, not 1"),
        (["--periods", "0.5ns,1ms"], "at least 1ns"),
        (["--periods", "999999999999s,1ms"], "292 years"),
        (["--priorities", "1"], "2 whole numbers are wanted, one for each model, such as 2,1"),
        (["--priorities", "1,-2"], "2 whole numbers are wanted"),
        (["--priorities", "1,4294967296"], "at most 4294967295"),
        (["--sample", "x.npz"], "wanted for each model, 2 times, not 1"),
        (["--name", "both"], "--name is of one model"),
        (["--require-proof", "p.json"], "--require-proof is of one model"),
        (["--board", "linux"], "--board linux takes one model: several are for cortex-m and riscv"),
    ],
)
def test_mistakes_are_named(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*WORDS, *words) == 2
    assert text in capsys.readouterr().err
    assert not Path("fw").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--periods", "1ms"], "--periods is for several models"),
        (["--priorities", "1"], "--priorities is for several models"),
        (["--sample", "x.npz", "--sample", "x.npz"], "given 2 times for one model"),
    ],
)
def test_words_of_several_are_refused_with_one(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("export", "slow.lds", "--board", "cortex-m", "-o", "fw", *words) == 2
    assert text in capsys.readouterr().err


def with_weights_of_another(artifact: Artifact) -> Artifact:
    """Its first load, of the weights, has become one of nothing."""
    (program,) = artifact.programs
    code = bytearray(program.instructions)
    code[16:32] = bytes([code[16] & 0x7F | 1 << 7]) + bytes(15)
    changed = replace(program, instructions=bytes(code))
    return replace(artifact, steps=tuple(changed if s is program else s for s in artifact.steps))


def test_what_cannot_share_the_device_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    dense_model(load_config("vtaq-1x8x8")).artifact.save("other.lds")
    branches()[1].save("two.lds")
    Path("a").mkdir()
    dense_model(CONFIG).artifact.save("a/slow.lds")
    with_weights_of_another(dense_model(CONFIG).artifact).save("reads.lds")
    for file, text in (
        ("other.lds", "other.lds was compiled for vtaq-1x8x8, slow.lds for vtaq-1x16x16"),
        ("two.lds", "two.lds: it has programs of several devices"),
        ("a/slow.lds", "slow.lds and a/slow.lds would both be slow in C"),
        ("reads.lds", "it is not certain that it reads only what its program has written"),
    ):
        words = ["export", "slow.lds", file, "--board", "cortex-m", "-o", "fw"]
        assert status_of(*words) == 2
        assert text in capsys.readouterr().err
        assert not Path("fw").exists()
