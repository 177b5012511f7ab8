# SPDX-License-Identifier: Apache-2.0
"""runtime/schedule.c in C: its loop in one thread, releases and cancellations from others, under
the thread sanitizer; and what it adds to a firmware."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone.vta.device.hw_config import load_config
from tests import objects
from tests.board.tools import need, run, work
from tests.c.build import STRICT, includes
from tests.c.test_c import linked
from tests.c.test_threads import SANITIZER
from tests.repeat import times
from tests.sample_model import dense_model

pytestmark = pytest.mark.rung("3")


@pytest.mark.full
def test_releases_and_cancellations_come_from_other_threads(root: Path, tmp_path: Path) -> None:
    need("g++", "g++")
    include = [*includes(root), f"-I{root}/hw_sim/include"]
    drivers = ("hal_sim.c", "pool.c", "regs_native.c", "regs_chisel.c", "regs_hls.c")
    sources = [
        root / "tests/c/schedule.c",
        *sorted((root / "runtime").glob("*.c")),
        *(root / "driver" / name for name in drivers),
    ]
    built = [objects.compiled(["gcc", *STRICT, *SANITIZER, *include], s) for s in sources]
    command = ["g++", "-std=c++17", *include]
    built += objects.simulator([*command, *SANITIZER], [*command, "-O0"])
    run(["g++", *SANITIZER, *built, "-lpthread", "-o", work() / "schedule"])
    path = tmp_path / "model.lds"
    dense_model(load_config("vtaq-1x16x16")).artifact.save(path)
    releases = times(60, 2000)
    done = subprocess.run(
        [str(work() / "schedule"), str(releases), str(path)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={"TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:6000]
    found = json.loads(done.stdout)
    assert found["runs"] == 3 * releases
    assert found["wrong"] == 0
    assert found["cancelled"] <= releases


def test_a_firmware_without_a_schedule_has_none_of_it(
    root: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    least, shared = tmp_path / "least", tmp_path / "shared"
    least.mkdir()
    shared.mkdir()
    assert not {"schedule.o", "isolated.o"} & linked(root, least).keys()
    kept = linked(root, shared, "SHARED")
    added = {name: kept[name] for name in ("schedule.o", "isolated.o")}
    figure(f"text on Cortex-M55 that several networks add: {added}")
    assert added["schedule.o"] <= 1088
    assert added["isolated.o"] <= 4224
