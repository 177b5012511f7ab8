# SPDX-License-Identifier: Apache-2.0
"""Programs of two devices at once, in C: the order of starts and looks, faults of one while the
other works, under the sanitizers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import objects
from tests.board.tools import need, run
from tests.c.build import STRICT, includes
from tests.further import SECOND, branches, expected, inputs
from tests.repeat import ALL, more

SANITIZERS = {
    "address": ["-fsanitize=address,undefined"],
    "none": [],
    "thread": ["-fsanitize=thread"],
}


@pytest.mark.full
@pytest.mark.parametrize("sanitizer", [pytest.param("address", marks=more), "none", "thread"])
def test_both_start_before_either_is_waited_for(root: Path, tmp_path: Path, sanitizer: str) -> None:
    """And whatever befalls one, both are idle afterwards, and compute as before."""
    need("g++", "g++")
    flags = ["-g", "-O1" if ALL else "-O0", *SANITIZERS[sanitizer]]
    include = [*includes(root), f"-I{root}/hw_sim/include"]
    drivers = ("hal_sim.c", "pool.c", "regs_native.c", "regs_chisel.c", "regs_hls.c")
    built = []
    for source in [
        root / "tests/c/beside.c",
        *sorted((root / "runtime").glob("*.c")),
        *(root / "driver" / d for d in drivers),
    ]:
        built.append(objects.compiled(["gcc", *STRICT, *flags, *include], source))
    command = ["g++", "-std=c++17", *include]
    built += objects.simulator([*command, *flags], [*command, "-O0"])
    run(["g++", *flags, *built, "-lpthread", "-o", tmp_path / "beside"])
    graph, artifact = branches()
    artifact.save(tmp_path / "m.lds")
    given = inputs(graph)
    (tmp_path / "x").write_bytes(given[0].tobytes())
    (tmp_path / "y").write_bytes(b"".join(y.tobytes() for y in expected(graph, given)))
    (tmp_path / "second").write_bytes(SECOND.configuration())
    files = [tmp_path / "m.lds", tmp_path / "x", tmp_path / "y", SECOND.name, tmp_path / "second"]
    done = subprocess.run(
        [str(word) for word in (tmp_path / "beside", *files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:4000]
    order, counts = done.stdout.splitlines()
    assert order in ("S0S1L0", "S0S1L1"), order
    assert json.loads(counts) == {"runs": 48, "errors": 6}
