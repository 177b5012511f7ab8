# SPDX-License-Identifier: Apache-2.0
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
from tests.repeat import ALL, more

pytestmark = pytest.mark.rung("1")

#: Sums of sizes, and pieces of the caller's memory: runtime/sizes.h.
SIZES = [
    "lds_size_sum",
    "lds_size_max",
    "lds_padding",
    "lds_size_with",
    "lds_piece",
    "lds_whole_lines",
    "lds_bus_inside",
]
#: File -> functions with contracts in it (runtime/bounds.h, runtime/format.h and
#: runtime/sizes.h come with the file that includes them).
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
        "lds_crc32",
    ],
    "runtime/session.c": SIZES,
}
#: Of what size_t is: 32 bits, as on a microcontroller; and 64, in `make test-all`, for what works
#: with it.
MACHINES = {"gcc_x86_32": PROVED, "gcc_x86_64": {"runtime/session.c": SIZES}}


def prove(
    root: Path,
    folder: Path,
    file: str,
    functions: list[str],
    seconds: int = 60,
    machine: str = "gcc_x86_32",
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
    command = ["frama-c", *wp, "-machdep", machine, f"-cpp-extra-args={include}", file]
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
    for machine, file, functions in [
        (m, *item)
        for m, files in (MACHINES.items() if ALL else [("gcc_x86_32", PROVED)])
        for item in files.items()
    ]:
        proved, goals, text = prove(root, tmp_path, file, functions, machine=machine)
        failed = [
            line
            for line in text.splitlines()
            if "Failed" in line or "Timeout" in line or "Unknown" in line
        ]
        assert proved == goals, "\n".join(failed)
        total += goals
    figure(f"{total} of {total} goals proved in {time.monotonic() - begin:.0f} s")
    assert total >= (160 if ALL else 120)


@more
@pytest.mark.full
def test_a_wrong_bound_is_not_proved(root: Path, tmp_path: Path) -> None:
    """The proofs can fail: off by one, overflow, a missing precondition."""
    for header, function, right, wrong in (
        ("bounds.h", "lds_inside", "count <= limit - first", "count <= limit - first + 1u"),
        ("bounds.h", "lds_area", "return (uint64_t)rows * width;", "return rows * width;"),
        (
            "bounds.h",
            "lds_places",
            "total - (uint32_t)extent + 1u",
            "total - (uint32_t)extent + 2u",
        ),
        ("bounds.h", "lds_blocks", "block > 0;", "block >= 0;"),
        ("sizes.h", "lds_size_sum", "b <= SIZE_MAX - a ? a + b : SIZE_MAX", "a + b"),
        ("sizes.h", "lds_piece", "size_bytes > m->left - pad", "size_bytes > m->left"),
        (
            "sizes.h",
            "lds_whole_lines",
            "pad <= limit - first - count ? count + pad : limit - first",
            "count + pad",
        ),
        (
            "sizes.h",
            "lds_bus_inside",
            "size_bytes - 1u <= last - bus",
            "bus + size_bytes - 1u <= last",
        ),
    ):
        text = (root / "runtime" / header).read_text()
        assert right in text
        changed = tmp_path / header
        changed.write_text(text.replace(right, wrong))
        proved, goals, _ = prove(root, tmp_path, str(changed), [function], seconds=5)
        assert proved < goals, wrong


def test_the_functions_that_are_proved_have_contracts(root: Path) -> None:
    for file, functions in PROVED.items():
        text = "".join(
            (root / name).read_text()
            for name in (file, "runtime/bounds.h", "runtime/format.h", "runtime/sizes.h")
        )
        for function in functions:
            assert re.search(rf"assigns [^;]*;[^/]*\*/\n(?:static)?[^;{{]*\b{function}\(", text), (
                function
            )
