# SPDX-License-Identifier: Apache-2.0
"""Which functions of the AVX-512 kernels were executed, and which lines were not.

In:   programs, to be replayed with kernels that count (gcc's --coverage, counters.c).
Out:  how often each function ran, every template's instance by itself; lines that never did.
Next: test_avx512.py.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from tests.board.tools import ROOT, need, run
from tests.bochs.build import replayer

__all__ = ["counting_replayer", "executed"]

#: Those of hw_sim/kernels.cmake, with less optimization: what is inline is counted before.
_FLAGS = (
    *("-std=c++17", "-O1", "--coverage", "-fprofile-info-section=lds_counters", "-Wno-psabi"),
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
)


def counting_replayer(folder: Path) -> Path:
    """build.replayer's program with kernels that count."""
    need("g++", "g++")
    includes = [f"-I{ROOT / header}/include" for header in ("hw_sim", "driver")]
    kernels = ROOT / "hw_sim/kernels_avx512.cc"
    run(["g++", *_FLAGS, *includes, "-c", kernels, "-o", "kernels.o"], cwd=folder)
    run(["gcc", "-std=c99", "-O1", "-c", ROOT / "tests/bochs/counters.c"], cwd=folder)
    return replayer(folder, [folder / "kernels.o", folder / "counters.o", "-lgcov"])


def executed(folder: Path, lines: list[str]) -> tuple[dict[str, int], list[str]]:
    """Of what the program printed: executions of each function, and "file:line" of what was never
    executed in any of its instances."""
    [counters] = [line.removeprefix("counters ") for line in lines if line.startswith("counters ")]
    (folder / "kernels.gcda").write_bytes(bytes.fromhex(counters))
    report = json.loads(run(["gcov", "--json-format", "--stdout", "kernels.gcda"], cwd=folder))
    functions: dict[str, int] = {}
    counts: dict[str, int] = defaultdict(int)
    for file in report["files"]:
        path = Path(file["file"])
        if path.parent != ROOT / "hw_sim":
            continue
        for function in file["functions"]:
            functions[function["demangled_name"]] = function["execution_count"]
        for line in file["lines"]:
            counts[f"{path.name}:{line['line_number']}"] += line["count"]
    return functions, [place for place, count in counts.items() if count == 0]
