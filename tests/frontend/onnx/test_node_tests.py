# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests: every case is equal, or a line of node_tests.txt says why it is refused.

A line is a pattern of names and a part of the sentence that refuses them. A wrong number, a
traceback, a refusal that the table does not know and a line that nothing needs are failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from tests.frontend.onnx import node_cases
from tests.frontend.onnx.node_cases import Case

TABLE = Path(__file__).with_name("node_tests.txt")
#: Every so many cases one that `make test-slow` runs; `make test-all` runs all.
EVERY = 10
LEAST_EQUAL = 1250
TOGETHER = 100


def reasons() -> list[tuple[str, str]]:
    """Pattern and part of a sentence of each line."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return [(pattern, reason.strip()) for pattern, _, reason in (e.partition(" ") for e in lines)]


def outcomes(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Name and outcome of each."""
    for begin in range(0, len(cases), TOGETHER):
        made = [node_cases.compiled(case) for case in cases[begin : begin + TOGETHER]]
        node_cases.prepared([entry for _, entry in made])
        yield from ((case.name, node_cases.outcome(case, entry)) for case, entry in made)


def unexplained(found: Sequence[tuple[str, str]]) -> list[str]:
    """What is neither equal nor refused as the table says."""
    known = reasons()
    return [
        f"{name}: {outcome}"
        for name, outcome in found
        if outcome != "equal"
        and not (
            outcome.startswith("refused")
            and any(fnmatchcase(name, pattern) and reason in outcome for pattern, reason in known)
        )
    ]


def test_a_slice_of_the_cases_is_equal_or_refused_as_the_table_says() -> None:
    assert unexplained(list(outcomes(node_cases.cases()[::EVERY]))) == []


def test_every_case_is_equal_or_refused_as_the_table_says(
    figure: Callable[[str], None],
) -> None:
    found = list(outcomes(node_cases.cases()))
    equal = {name for name, outcome in found if outcome == "equal"}
    assert unexplained(found) == []
    others = [name for name, outcome in found if outcome != "equal"]
    needed = {p for p, _ in reasons() if any(fnmatchcase(name, p) for name in others)}
    assert [p for p, _ in reasons() if p not in needed] == []
    assert [p for p, _ in reasons() if p in equal] == []
    assert len(equal) >= LEAST_EQUAL
    figure(f"ONNX's node tests: {len(equal)} of {len(found)} equal, the others refused")


@pytest.mark.parametrize(
    "outcome", ["wrong: 1 of 3 elements of output 0", "traceback: TypeError: no", "refused: why"]
)
def test_what_is_not_equal_needs_a_line(outcome: str) -> None:
    assert unexplained([("test_abs", outcome), ("test_acos", "equal")]) == [f"test_abs: {outcome}"]
