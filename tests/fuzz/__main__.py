"""`python -m tests.fuzz [SECONDS] [FOLDER]`: build the simulator's fuzz target with clang, and run
it from legal programs as seeds.

`python -m tests.fuzz models [--seconds N]`: mutants of TFLite and ONNX models instead (models.py).

In:   hw_sim/*.cc, sim_fuzz.cc.
Out:  exit status 0 when nothing was found; else libFuzzer's report, and the input in FOLDER
      (default: build/fuzz).
Next: test_fuzz.py.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from loadstone.vta.hw_config import HwConfig, load_config
from tests.programs import random_program

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "-std=c++17",
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all",
    "-Wno-psabi",
]
LANES = ["-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
VECTORS = {
    "kernels_avx2": ["-mavx2"],
    "kernels_avx512": [f"-mavx512{x}" for x in ("f", "bw", "dq", "vl", "vnni")],
}
#: Seconds that one input may take, and MiB.
TIMEOUT_SECONDS, MEMORY_MIB = 10, 2048


def build(folder: Path) -> Path:
    """Compiles the target; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    include = [f"-I{ROOT / part / 'include'}" for part in ("hw_sim", "driver")]
    objects, running = [], []
    for source in [*sorted((ROOT / "hw_sim").glob("*.cc")), Path(__file__).parent / "sim_fuzz.cc"]:
        objects.append(folder / f"{source.stem}.o")
        flags = [
            *FLAGS,
            *(LANES + VECTORS.get(source.stem, []) if source.stem.startswith("kernels_") else []),
        ]
        running.append(
            subprocess.Popen(
                ["clang++", *flags, *include, "-c", str(source), "-o", str(objects[-1])]
            )
        )
    if any(process.wait() for process in running):
        raise SystemExit("the fuzz target does not compile")
    subprocess.run(
        ["clang++", *FLAGS, *map(str, objects), "-o", str(folder / "sim_fuzz")], check=True
    )
    return folder / "sim_fuzz"


def seeds(folder: Path) -> None:
    """Legal programs of several devices, behind the header that sim_fuzz.cc reads."""
    folder.mkdir(parents=True, exist_ok=True)
    tiny = load_config("vtaq-tiny")
    wide = replace(
        tiny, name="wide", log_block=4, log_inp_buff=12, log_wgt_buff=15, log_acc_buff=14
    )
    for number, config in enumerate(
        [tiny, wide, replace(wide, log_batch=1), replace(wide, profile="vta")]
    ):
        for seed in range(8):
            program = random_program(config, np.random.default_rng(seed), 12)
            (folder / f"{number}_{seed}").write_bytes(
                _header(config, options=seed) + program.insns.tobytes()
            )


def _header(config: HwConfig, options: int) -> bytes:
    bus = (32, 64, 128, 256, 512).index(config.bus_bits)
    return config.fingerprint() + bytes(
        [bus, options << 1 & 31, 0, 16, 0, 11, 64, 255, 63, 0, 0, 0]
    )


def fuzz(target: Path, seconds: int, folder: Path) -> int:
    """Runs a target; the exit status is libFuzzer's."""
    seeds(folder / "seeds")
    (folder / "corpus").mkdir(exist_ok=True)
    words = [
        f"-max_total_time={seconds}",
        f"-timeout={TIMEOUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        "-max_len=1024",
        "-print_final_stats=1",
    ]
    return subprocess.run(
        [str(target), *words, str(folder / "corpus"), str(folder / "seeds")],
        cwd=folder,
        check=False,
    ).returncode


def main(seconds: int = 60, folder: Path = ROOT / "build" / "fuzz") -> int:
    """Builds and fuzzes."""
    return fuzz(build(folder), seconds, folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["models"]:
        from tests.fuzz import models

        sys.exit(models.main(sys.argv[2:]))
    sys.exit(
        main(*(convert(word) for convert, word in zip((int, Path), sys.argv[1:], strict=False)))
    )
