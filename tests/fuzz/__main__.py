# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz [TARGET ...] [--seconds N]`: arbitrary input against everything that reads
input: instruction streams, whole artifacts (64 and 32 bit), models, devices' JSON, packets.

In:   hw_sim/*.cc with sim_fuzz.cc (libFuzzer, ASan, UBSan); artifacts.py, models.py, devices.py,
      packets.py.
Out:  exit status 0 when nothing was found; else what was, and the input in build/fuzz.
Next: `make fuzz SECONDS=600`; test_fuzz.py for some seconds of each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np

from loadstone.vta.device.hw_config import HwConfig, load_config
from tests import objects
from tests.fuzz.artifacts import BITS
from tests.fuzz.artifacts import fuzz as fuzz_artifacts
from tests.programs import random_program
from tests.simulated import CODED, EIGHT_WINDOWS, TINY_INP

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "-std=c++17",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all",
    "-Wno-psabi",
]
#: Where the device's block is in its configuration.
_LOG_BLOCK = 5
#: Seconds that one input may take, and MiB.
TIMEOUT_SECONDS, MEMORY_MIB = 10, 2048


def build(folder: Path, optimization: str = "-O1") -> Path:
    """Compiles the target; returns it. Without optimization the compiler takes half as long."""
    folder.mkdir(parents=True, exist_ok=True)
    include = [f"-I{ROOT / part / 'include'}" for part in ("hw_sim", "driver")]
    common = ["clang++", *FLAGS, optimization, *include]
    built = [
        *objects.simulator(common, common),
        objects.compiled(common, Path(__file__).parent / "sim_fuzz.cc"),
    ]
    subprocess.run([*common, *built, "-o", str(folder / "sim_fuzz")], check=True)
    return folder / "sim_fuzz"


def seeds(folder: Path) -> None:
    """Legal programs of several devices, behind the header that sim_fuzz.cc reads."""
    folder.mkdir(parents=True, exist_ok=True)
    tiny = load_config("vtaq-tiny")
    wide = replace(
        tiny, name="wide", log_block=4, log_inp_buff=12, log_wgt_buff=15, log_acc_buff=14
    )
    small = {"log_inp_buff": 11, "log_wgt_buff": 13, "log_acc_buff": 12}
    floats = replace(load_config("vtab-1x8x8"), name="floats", **small)
    devices = [tiny, wide, replace(wide, log_batch=1), replace(wide, profile="vta"), floats]
    devices += [CODED[0], EIGHT_WINDOWS, TINY_INP]
    for number, config in enumerate(devices):
        impossible = bytearray(_header(config, options=0))
        impossible[_LOG_BLOCK] = 200  # no number of bits to shift by
        (folder / f"{number}_impossible").write_bytes(impossible)
        for seed in range(8):
            program = random_program(config, np.random.default_rng(seed), 12)
            (folder / f"{number}_{seed}").write_bytes(
                _header(config, options=seed) + program.insns.tobytes()
            )


def _header(config: HwConfig, options: int) -> bytes:
    bus = (32, 64, 128, 256, 512).index(config.bus_bits)
    return config.configuration() + bytes(
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


def streams(seconds: int, folder: Path) -> int:
    """Instruction streams and configurations, on the simulator."""
    return fuzz(build(folder), seconds, folder)


def artifacts(seconds: int, folder: Path) -> int:
    """Whole artifacts through open, bind, run and host steps; half the time with 32 bits."""
    folder.mkdir(parents=True, exist_ok=True)
    for bits in BITS:
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            print(fuzz_artifacts(bits, max(seconds // len(BITS), 1), Path(fresh)), flush=True)
    return 0


def model_mutants(seconds: int, folder: Path) -> int:
    """Models against LiteRT and ONNX Runtime."""
    from tests.fuzz import models

    return models.main(["--seconds", str(seconds)])


def _counted(module: str) -> Callable[[int, Path], int]:
    def run(seconds: int, folder: Path) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            counts, wrong = import_module(f"tests.fuzz.{module}").fuzz(seconds, Path(fresh))
        print(f"{module}: {dict(sorted(counts.items()))}")
        print("\n".join(wrong))
        return int(bool(wrong))

    return run


#: What is fuzzed -> how. Each gets its share of the seconds.
TARGETS: dict[str, Callable[[int, Path], int]] = {
    "streams": streams,
    "artifacts": artifacts,
    "models": model_mutants,
    "devices": _counted("devices"),
    "packets": _counted("packets"),
    "language": _counted("language"),
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the targets that are named, or all; 1 when one found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="all together")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz")
    args = parser.parse_args(words)
    chosen = args.targets or list(TARGETS)
    if unknown := sorted(set(chosen) - TARGETS.keys()):
        parser.error(f"{unknown[0]!r} is not one of {', '.join(TARGETS)}")
    share = max(args.seconds // len(chosen), 1)
    return max(int(TARGETS[name](share, args.folder / name) != 0) for name in chosen)


if __name__ == "__main__":
    sys.exit(main())
