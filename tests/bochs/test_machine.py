# SPDX-License-Identifier: Apache-2.0
"""The machine without an operating system: files of any size arrive whole, arguments too, and a
program that fails says how."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from tests.board.tools import run
from tests.bochs.machine import PROGRAM_AT, run_on_avx512
from tests.repeat import more

pytestmark = [pytest.mark.full, more]

#: Prints the CRC-32 of a file, and whether the processor has what the simulator's path needs.
SOURCE = r"""
#include <stdio.h>
int main(int argc, char **argv) {
  if (argc != 2) return 3;
  FILE *file = fopen(argv[1], "rb");
  if (file == NULL) __builtin_trap();
  unsigned crc = 0xffffffffu;
  for (int c; (c = getc(file)) != EOF;) {
    crc ^= (unsigned)c;
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (0xedb88320u & -(crc & 1));
  }
  printf("%x\n%d\n", ~crc, !!__builtin_cpu_supports("avx512vnni"));
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "crc.c").write_text(SOURCE)
    at = f"-Wl,-Ttext-segment={PROGRAM_AT:#x}"
    run(["gcc", "-O1", "-static", at, folder / "crc.c", "-o", folder / "crc"])
    return folder / "crc"


# The disk is read 256 sectors at a time and ends with a cylinder, 1,008 sectors: behind these, at
# once, and after some more.
@pytest.mark.parametrize("size_bytes", [0, 1, 100_000, 700_000, 1_200_000])
def test_a_file_arrives_whole(program: Path, size_bytes: int) -> None:
    content = random.Random(size_bytes).randbytes(size_bytes)
    lines = run_on_avx512(program, ["some file"], {"some file": content}, timeout_s=600)
    assert lines == [f"{zlib.crc32(content):x}", "1"]


@pytest.mark.parametrize(
    ("arguments", "complaint"), [([], "exit 3"), (["no such file"], "exception 6")]
)
def test_a_program_that_fails_says_how(program: Path, arguments: list[str], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        run_on_avx512(program, arguments, timeout_s=600)
