# SPDX-License-Identifier: Apache-2.0
"""Random programs on the simulator's AVX-512 path: the bytes of the reference, the cycles of the
portable path.

In:   how many programs; of bfloat16, or of int8.
Out:  how many were equal; an AssertionError with the first difference.
Next: `make test-avx512` (python -m tests.bochs), test_avx512.py.

The devices' tiles are those of the built-in ones, their scratchpads hold fewer: the emulator's time
goes into programs rather than into zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from tests.bochs.machine import run_on_avx512
from tests.programs import Program, random_program
from tests.recorded import record
from tests.simulated import DEVICES

__all__ = ["SMALLEST_BLOCK", "campaign", "devices", "replay"]

#: Of the path: a device with smaller tiles takes another.
SMALLEST_BLOCK = 16
#: Programs in one file, of some 25 MB.
_AT_A_TIME = 500
_DEPTHS = {Memory.INP: 32, Memory.WGT: 8, Memory.ACC: 32}


def devices(*, is_float: bool) -> list[HwConfig]:
    """Those that the path takes."""
    chosen = [c for c in DEVICES if c.block >= SMALLEST_BLOCK and c.is_float == is_float]
    return [_shallow(config) for config in chosen]


def _shallow(config: HwConfig) -> HwConfig:
    log = {
        memory: (depth * config.tile_bytes(memory)).bit_length() - 1
        for memory, depth in _DEPTHS.items()
    }
    return replace(
        config,
        name=f"{config.name}-shallow",
        log_inp_buff=log[Memory.INP],
        log_wgt_buff=log[Memory.WGT],
        log_acc_buff=log[Memory.ACC],
    )


def _programs(configs: list[HwConfig], seeds: range) -> list[Program]:
    return [
        random_program(configs[seed % len(configs)], np.random.default_rng(seed)) for seed in seeds
    ]


def replay(replayer: Path, programs: list[Program], folder: Path) -> list[str]:
    """What build.replayer's program prints of the AVX-512 path."""
    file = folder / "programs"
    record(programs, file)
    content = file.read_bytes()
    file.unlink()
    return run_on_avx512(replayer, ["programs", "avx512"], {"programs": content})


def campaign(
    replayer: Path, folder: Path, count: int, *, is_float: bool, first: int = 0
) -> Iterator[int]:
    """Yields how many programs are done, after each file of them. first: the first seed."""
    configs = devices(is_float=is_float)
    done, waiting = 0, list[tuple[int, Future[list[str]]]]()

    def finish() -> None:
        nonlocal done
        some, future = waiting.pop()
        lines = future.result()
        assert lines == [f"avx512 {some} programs"], f"from seed {first + done} on: {lines}"
        done += some

    with ThreadPoolExecutor(1) as emulator:  # the next file is made meanwhile
        for begin in range(0, count, _AT_A_TIME):
            some = min(_AT_A_TIME, count - begin)
            file = folder / "programs"
            record(_programs(configs, range(first + begin, first + begin + some)), file)
            content = file.read_bytes()
            if waiting:
                finish()
                yield done
            files = {"programs": content}
            run = emulator.submit(run_on_avx512, replayer, ["programs", "avx512"], files)
            waiting.append((some, run))
        finish()
        yield done
