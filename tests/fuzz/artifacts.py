# SPDX-License-Identifier: Apache-2.0
"""Mutated artifacts through open, bind, run and host steps, with a size_t of 64 and of 32 bits.

In:   tests/c/fuzz_artifact.c (libFuzzer, ASan, UBSan), artifacts of several devices as a corpus.
Out:  how many were executed, and what they covered.
Next: `python -m tests.fuzz artifacts`, tests/c/test_readers.py; millions, each piece from the
      corpus that the last one left: `python -m tests.fuzz.artifacts --folder F --runs 1000000`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.isa.c_table import c_table
from loadstone.vta.device.hw_config import load_config
from tests import objects
from tests.artifact.test_format import every_operator_model
from tests.c.build import includes, mode_flags
from tests.c.test_c import board_sources, run, tool
from tests.isa.tables import NPU
from tests.sample_model import copy_model, dense_model, entries_model, with_host_memory

__all__ = ["BITS", "build", "fuzz"]

ROOT = Path(__file__).resolve().parents[2]
#: Widths of size_t.
BITS = (64, 32)


def fuzz(bits: int, seconds: int, folder: Path) -> str:
    """So many seconds with a size_t of so many bits; a line of figures. AssertionError with
    libFuzzer's last words when it found something."""
    said = _fuzz(build(bits, folder), [f"-max_total_time={seconds}"], seconds + 120)
    return f"libFuzzer on artifacts, {bits} bits, {seconds} s: {said}"


def build(bits: int, folder: Path) -> Path:
    """The fuzzer, with a corpus beside it."""
    clang = tool("clang", "clang libclang-rt-14-dev")
    corpus = folder / "corpus"
    corpus.mkdir()
    for k, model in enumerate(_models()):
        data = model.to_bytes()
        (corpus / str(k)).write_bytes(data + bytes(len(data) % 2))
    table = folder / "npu_table.c"
    table.write_text(c_table(NPU))
    flags = [
        *mode_flags(bits),
        "-g",
        "-O1",
        "-fsanitize=fuzzer,address,undefined",
        "-fno-sanitize-recover=all",
        f"-fsanitize-coverage-ignorelist={Path(__file__).with_name('uncovered.txt')}",
    ]
    include = [*includes(ROOT), f"-I{ROOT}/hw_sim/include"]
    command = [clang, *flags, "-std=c99", *include]
    simulated = [tool("clang++", "clang"), *flags, "-std=c++17", "-Wno-psabi", *include]
    sources = [ROOT / "tests/c/fuzz_artifact.c", *board_sources(ROOT)]
    made = [*objects.all_compiled(command, sources), *objects.simulator(simulated, simulated)]
    run([*command, "-c", table, "-o", "table.o"], cwd=folder)
    run([*simulated, "table.o", *made, "-o", "fuzz"], cwd=folder)
    return folder / "fuzz"


def _models() -> list[Artifact]:
    from tests.artifact.test_program_step import program_model  # whose readers' tests import this

    devices = ("vtaq-1x16x16", "vtaq-tiny", "vta-pynq")
    models = [
        copy_model(),
        entries_model(),
        every_operator_model(),
        *(dense_model(load_config(n), page_bytes=64).artifact for n in devices),
        with_host_memory(copy_model(), [(1 << 31, 16)] * 2),
        with_host_memory(copy_model(), [((1 << 32) - 1, 65536)] * 5),
        program_model(),  # of a device with instructions of its own
    ]
    if find_spec("tvm"):  # of a device of bfloat16, which the compiler makes
        from tests.real_operators import artifact_of, random_operator

        config, rng = load_config("vtab-1x8x8"), np.random.default_rng(0)
        models += [artifact_of(random_operator(k, rng), config) for k in ("conv2d", "binary")]
    return models


def _fuzz(target: Path, how_long: list[str], timeout_seconds: float | None) -> str:
    done = subprocess.run(
        [
            target,
            *how_long,
            "-max_len=32768",
            "-timeout=5",
            "-rss_limit_mb=1024",
            "-print_final_stats=1",
            "corpus",
        ],
        cwd=target.parent,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    covered = re.findall(r"cov: \d+", done.stderr)[-1:]
    figures = r"stat::(number_of_executed_units|opened|executed|slowest_unit_time_sec): +(\d+)"
    return ", ".join([*(f"{k} {n}" for k, n in re.findall(figures, done.stderr)), *covered])


def main(words: list[str]) -> int:
    """A piece of a campaign: what the folder's corpus has is kept; a line of figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.artifacts")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--bits", type=int, choices=BITS, default=64)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(words)
    target = args.folder.resolve() / "fuzz"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        build(args.bits, target.parent)
    print(_fuzz(target, [f"-runs={args.runs}", f"-seed={args.seed}"], None), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
