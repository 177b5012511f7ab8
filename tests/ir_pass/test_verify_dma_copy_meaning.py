# SPDX-License-Identifier: Apache-2.0
"""ir_pass/verify_dma_copy.py: what it passes computes the same, whatever was changed."""

from __future__ import annotations

import random
import re

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from tests.ir_pass.nest_meaning import WrongNest, written
from tests.ir_pass.test_verify_dma_copy import TABLE, TEXT
from tests.repeat import times

#: A product in two loops, the inner of which is clipped and steps by two; its result is read again.
STRIDED = """\
func f:
  table w: int8[2, 2] x16x16
  param x: int8[3, 7] x1x16
  param y: int8[5] x1x16
  local acc: int32[2] x1x16
  param out: int8[5] x1x16
  for t<3:
    fill(acc[i] | 3) for i<2 if -2*t - i + 4 >= 0
    gemm(acc[i], x[j, 2*t + i + k else 7], w[j, k]) for i<2 j<2 k<2 if -2*t - i + 4 >= 0
    add(acc[i] | 5) for i<2 if -2*t - i + 4 >= 0
    copy(y[2*t + i], acc[i]) for i<2 if -2*t - i + 4 >= 0
    max(acc[i] | 0); shr(acc[i] | 2) for i<2 if -2*t - i + 4 >= 0
    gemm(acc[i], y[2*t + i], w[0, 1]) for i<2 if -2*t - i + 4 >= 0
    copy(out[2*t + i], acc[i]) for i<2 if -2*t - i + 4 >= 0
"""
FUNCTIONS = {"digits": TEXT, "strided": STRIDED}


def changed(rng: random.Random, text: str) -> str:
    """At one place: a number, a name, a condition, a pad; a line that is left out, moved or there
    twice."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(1, len(lines))
    line, kind = lines[at], rng.randrange(7)
    if kind == 0:
        other = rng.randrange(1, len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 1:
        lines.insert(rng.randrange(at, len(lines)), line if rng.randrange(2) else lines.pop(at))
    elif kind == 2:
        del lines[at]
    else:
        pattern = {
            3: r"(?<![\w])\d+",
            4: r"\b[a-z]\d?(?=[\s\],*])",
            5: r" else -?\d+",
            6: r" if .*",
        }
        found = list(re.finditer(pattern.get(kind, ""), line))
        if found:
            match = rng.choice(found)
            new = ""
            if kind == 3:
                new = str(max(0, int(match[0]) + rng.choice([-1, 1, 2])))
            elif kind == 4:
                new = rng.choice(found)[0]
            lines[at] = line[: match.start()] + new + line[match.end() :]
    return "".join(lines)


def verdict(before: Function, text: str) -> str:
    """Of the verifier; "" where the text is no function."""
    try:
        after = parsed(text)
    except LoweringError:
        return ""
    try:
        verify_dma_copy(before, after, TABLE)
    except LoweringError as error:
        return str(error)
    return "passed"


def outcome(text: str) -> object:
    """What it writes, or why it cannot be executed."""
    try:
        return written(parsed(text), TABLE)
    except WrongNest as error:
        return str(error)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_passed_computes_the_same(name: str) -> None:
    rng, before = random.Random(1), parsed(FUNCTIONS[name])
    right, text = written(before, TABLE), printed(insert_dma_copy(before, TABLE))
    assert written(parsed(text), TABLE) == right
    verdicts: list[str] = []
    for _ in range(times(500, 50_000)):
        spoilt = changed(rng, text)
        if rng.randrange(2):
            spoilt = changed(rng, spoilt)
        said = verdict(before, spoilt)
        verdicts.append(said)
        if said == "passed":
            assert outcome(spoilt) == right, spoilt
    assert verdicts.count("passed") > 15
    assert len(set(verdicts)) > 20


def test_a_refusal_is_of_what_computes_something_else() -> None:
    """Most of them: others load what nobody needs, or more than there is room for."""
    rng, before = random.Random(2), parsed(TEXT)
    right, text = written(before, TABLE), printed(insert_dma_copy(before, TABLE))
    wrong = refused = 0
    for _ in range(times(300, 3000)):
        spoilt = changed(rng, text)
        if verdict(before, spoilt) in ("", "passed"):
            continue
        refused += 1
        wrong += outcome(spoilt) != right
    assert wrong > 0.6 * refused > 50
