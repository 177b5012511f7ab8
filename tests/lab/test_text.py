# SPDX-License-Identifier: Apache-2.0
"""The page's assembler and disassembler (lab/words.cc, lab/parse.cc, lab/print.cc, lab/insn.cc) say
what Python's do, for every kind of instruction, and refuse the same texts with the same words."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from loadstone.errors import AssemblerError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.asm import assemble, text_of
from loadstone.vta.isa.codec import decode_stream, encode_stream
from tests.board.tools import ROOT, need, run
from tests.objects import compiled
from tests.random_insns import CONFIGS, random_stream
from tests.repeat import times

STRICT = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"]
INCLUDES = [f"-I{ROOT / part}" for part in ("lab", "driver/include")]
PER_DEVICE = times(300, 20_000)
Answers = Callable[[HwConfig, Sequence[str]], list[str]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    need("g++", "g++")
    command = ["g++", *STRICT, *INCLUDES]
    files = [
        *(ROOT / f"lab/{n}.cc" for n in ("insn", "parse", "print", "words")),
        ROOT / "tests/lab/text.cc",
    ]
    program: Path = tmp_path_factory.mktemp("text") / "text"
    run(["g++", *(compiled(command, file) for file in files), "-o", program])

    def ask(config: HwConfig, lines: Sequence[str]) -> list[str]:
        widths = [str(config.widths[name]) for name in ("lu", "li", "lw", "la")]
        text = "\n".join(lines) + "\n"
        done = subprocess.run(
            [program, *widths], input=text, capture_output=True, text=True, check=True
        )
        return done.stdout.split("\n")[:-1]

    return ask


def in_python(text: str, config: HwConfig) -> str:
    """As text.cc answers."""
    try:
        return assemble(text, config).tobytes().hex()
    except AssemblerError as error:
        return f"! {error}"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_every_instruction_has_pythons_text_and_bytes(config: HwConfig, answers: Answers) -> None:
    stream = random_stream(config, PER_DEVICE, 3)
    code = encode_stream(stream, config)
    texts = [text_of(insn) for insn in decode_stream(code, config)]
    coded = [row.tobytes().hex() for row in code]
    assert answers(config, [f"d {digits}" for digits in coded]) == texts
    assert answers(config, [f"a {text}" for text in texts]) == coded


def test_what_is_no_instruction_is_refused_in_pythons_words(answers: Answers) -> None:
    config, rng = CONFIGS[0], random.Random(5)
    stream = random_stream(config, 20, 4)
    words = [re.findall(r"\w+|\S|\s+", text_of(insn)) for insn in stream]
    spare = [*{word for line in words for word in line}, "70000", "99999999999999999999", "-1", "'"]
    lines = [
        "",
        "# nothing",
        "  3: finish # 'x",
        '"#" finish',
        "pop(store) load inp[0] = dram[0 + x] for x<1",
    ]
    for _ in range(times(600, 20_000)):
        line = list(rng.choice(words))
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(line))
            line[at : at + rng.randint(0, 1)] = [rng.choice(spare)] * rng.randint(0, 1)
            if not line:
                break
        lines.append("".join(line))
    found = answers(config, [f"a {line}" for line in lines])
    kinds = {"refused": 0, "taken": 0}
    for line, answer in zip(lines, found, strict=True):
        wanted = in_python(line, config)
        kinds["refused" if wanted.startswith("!") else "taken"] += 1
        if "does not fit" in wanted or "is not one of" in wanted:  # with more of the number
            assert answer.startswith("! "), line
        else:
            assert answer == wanted, line
    assert min(kinds.values()) > len(lines) / 50, kinds
