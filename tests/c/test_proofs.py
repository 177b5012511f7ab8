"""Rung 1 of the ladder: Frama-C proves the contracts in the C sources, and that nothing in these
functions is undefined."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.board.tools import need

pytestmark = pytest.mark.rung("1")

#: File -> functions with contracts in it (runtime/bounds.h and runtime/format.h come with every
#: file).
PROVED = {
    "runtime/model.c": [
        "lds_inside",
        "lds_entries",
        "lds_limited_product",
        "lds_blocks",
        "lds_places",
        "lds_rows_extent",
        "lds_area",
        "lds_loops_extent",
        "lds_u16",
        "lds_u32",
        "lds_i32",
        "crc32",
    ],
}


def prove(
    root: Path, folder: Path, file: str, functions: list[str], seconds: int = 60
) -> tuple[int, int, str]:
    """Goals proved, goals, and what Frama-C said."""
    for name, package in (("frama-c", "frama-c-base"), ("why3", "why3"), ("z3", "z3")):
        need(name, package)
    environment = {**os.environ, "HOME": str(folder), "WHY3CONFIG": str(folder / "why3.conf")}
    subprocess.run(["why3", "config", "detect"], env=environment, capture_output=True, check=False)
    wp = [
        "-wp",
        "-wp-rte",
        "-wp-prover",
        "z3",
        "-wp-timeout",
        str(seconds),
        "-wp-par",
        "2",
        "-wp-cache",
        "none",
        "-wp-fct",
        ",".join(functions),
    ]
    include = f"-I {root}/runtime -I {root}/runtime/include -I {root}/driver/include"
    command = ["frama-c", *wp, "-machdep", "gcc_x86_32", f"-cpp-extra-args={include}", file]
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    found = re.search(r"Proved goals:\s+(\d+) / (\d+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return int(found[1]), int(found[2]), done.stdout


@pytest.mark.full
def test_every_contract_is_proved(
    root: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    begin, total = time.monotonic(), 0
    for file, functions in PROVED.items():
        proved, goals, text = prove(root, tmp_path, file, functions)
        failed = [
            line
            for line in text.splitlines()
            if "Failed" in line or "Timeout" in line or "Unknown" in line
        ]
        assert proved == goals, "\n".join(failed)
        total += goals
    figure(f"{total} of {total} goals proved in {time.monotonic() - begin:.0f} s")
    assert total >= 50


@pytest.mark.full
def test_a_wrong_bound_is_not_proved(root: Path, tmp_path: Path) -> None:
    """The proofs can fail: off by one, overflow, a missing precondition."""
    text = (root / "runtime/bounds.h").read_text()
    for function, right, wrong in (
        ("lds_inside", "count <= limit - first", "count <= limit - first + 1u"),
        ("lds_area", "return (uint64_t)rows * width;", "return rows * width;"),
        ("lds_places", "total - (uint32_t)extent + 1u", "total - (uint32_t)extent + 2u"),
        ("lds_blocks", "block > 0;", "block >= 0;"),
    ):
        assert right in text
        changed = tmp_path / "bounds.h"
        changed.write_text(text.replace(right, wrong))
        proved, goals, _ = prove(root, tmp_path, str(changed), [function], seconds=5)
        assert proved < goals, wrong


def test_the_functions_that_are_proved_have_contracts(root: Path) -> None:
    for file, functions in PROVED.items():
        text = "".join(
            (root / name).read_text() for name in (file, "runtime/bounds.h", "runtime/format.h")
        )
        for function in functions:
            assert re.search(rf"assigns \\nothing;[^/]*\*/\nstatic[^;{{]*\b{function}\(", text), (
                function
            )
