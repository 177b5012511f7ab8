# SPDX-License-Identifier: Apache-2.0
"""docs/any-scale.md: its lane is the one that the planner finds, its numbers are what the code
computes, its pictures are drawn from them; and the glossary has every word of vta/integers/."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from loadstone.numerics import requantize_double
from loadstone.vta.integers.levels import constant_limit
from loadstone.vta.integers.proof import DigitPlan, _multipliers, prove_digits
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.steps import BlockPlan, name_of, sums_of, tail_steps
from tests.conftest import ROOT
from tests.vta.integers.made import device, made_runs, outputs, plan_of
from tests.vta.integers.test_proof_rules import COUNTEREXAMPLES

PAGE = "docs/any-scale.md"
BLOCK = 16
#: GEMM steps of a sum: of a kernel of 3x3, from 16 channels.
SUM_STEPS = 9
REACH = (-207496, 204329)


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("any_scale", ROOT / "docs/site/any_scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(drawing: ModuleType) -> Runs:
    """Of the lane."""
    scale = np.array([drawing.MULTIPLIER * 2.0 ** (drawing.SHIFT - 31)])
    return made_runs(scale, REACH, "double", drawing.ZERO_POINT)


@pytest.fixture(scope="module")
def plan(runs: Runs) -> DigitPlan:
    found = plan_of(runs, SUM_STEPS)
    assert isinstance(found, DigitPlan)
    return found


# --- the lane -------------------------------------------------------------------------------------
def test_the_lane_is_what_the_planner_finds(
    page: str, plan: DigitPlan, runs: Runs, drawing: ModuleType
) -> None:
    assert prove_digits(plan, runs).all()
    assert plan.clamped
    (constant,) = (int(own[0]) for level in plan.chain.levels for own in level.constants)
    bits = plan.chain.exponents[-1] + int(plan.chain.shift[0])
    own = (int(plan.offset[0]), *(int(own[0]) for own in _multipliers(plan)), constant, bits)
    assert own == (drawing.OFFSET, drawing.M0, drawing.M1, drawing.CONSTANT, drawing.BITS)
    for name, value in zip(("offset", "M0", "M1", "constant", "k"), own, strict=True):
        assert f"\n| {name} | {value} |" in page
    weights = [(digit, int(w[0])) for level in plan.chain.levels for digit, w in level.products]
    assert weights == [(0, 9), (1, -117), (0, 81), (1, 9), (1, 81)]
    scale, count = float(runs.scale[0]), REACH[1] - REACH[0] + 1
    assert f"{drawing.MULTIPLIER}, {drawing.SHIFT}: a scale of" in page
    assert f"2^21 times the scale is {scale * 2**21:.2f}" in page
    assert f"2^29 times the scale is {scale * 2**29:.2f}" in page
    assert f"{REACH[0]} .. {REACH[1]}: {count} of them, in {runs.first.shape[1]} runs" in page
    steps = tail_steps(plan, SUM_STEPS, BLOCK)
    assert f"The lane above takes {steps} cycles where its sum has K = {SUM_STEPS} steps" in page
    at_zero = np.array([-drawing.OFFSET - 2, -drawing.OFFSET])
    assert outputs(runs, 0, at_zero).tolist() == [-1, 0]
    assert f"up to 127 * 127 * 15 = {constant_limit(BLOCK)}" in page


def test_the_accumulator_that_is_followed_by_hand(
    page: str, plan: DigitPlan, runs: Runs, drawing: ModuleType
) -> None:
    acc = drawing.EXAMPLE
    low, high = drawing.digits(acc)
    x, product = acc + drawing.OFFSET, acc * drawing.MULTIPLIER
    upper = int(requantize_double(np.array([acc]), drawing.MULTIPLIER, 0)[0])
    first = high + 9 * low - 117 * high + drawing.CONSTANT
    second = (first >> 8) + 81 * low + 9 * high
    third = (second >> 8) + 81 * high
    result = third >> 5
    for line in (
        f"{acc} * {drawing.MULTIPLIER} = {product}. Its upper half, rounded, is {upper}",
        f"{product} / 2^31 = {product / 2**31:.2f}",
        f"{upper} / 64 = {upper / 64:.2f}, so {result - drawing.ZERO_POINT}",
        f"x = {acc} - {-drawing.OFFSET} = {x}. Its low byte as a signed number is d0 = {low}",
        f"d1 = ({x} + 128) >> 8 = {high}. Indeed {low} + 256 * ({high}) = {x}",
        f"y = {high} + 9 * {low} - 117 * ({high}) + {drawing.CONSTANT} = {first}",
        f"y = ({first} >> 8) + 81 * {low} + 9 * ({high}) = {first >> 8} + {81 * low} - "
        f"{-9 * high} = {second}",
        f"y = ({second} >> 8) + 81 * ({high}) = {second >> 8} - {-81 * high} = {third}",
        f"{third} >> 5 = {result} ({third / 32:.2f}, rounded down), within -128 .. 127: "
        f"**{result}**",
    ):
        assert line in page
    where = np.array([acc])
    assert device(plan, 0, where) == outputs(runs, 0, where) == [result]
    far = REACH[1] + drawing.OFFSET
    assert f"For acc = {REACH[1]}, x = {far} does not fit two digits: the upper one" in page
    assert f"would be {far + 128 >> 8}. So it is" in page


def bounds(runs: Runs, drawing: ModuleType, m1: int) -> tuple[int, int]:
    """What the ends of runs leave of the constant; those at which the top digit is clamped say
    nothing."""
    ends = np.array([runs.first[0], runs.last[0]]) + drawing.OFFSET
    upper = (ends + 128) >> 8
    y = ((ends + 128) % 256 - 128) * drawing.M0 + upper * m1
    value, inside = runs.value[0], (upper >= -128) & (upper <= 127)
    least = ((value << drawing.BITS) - y[0])[inside[0] & (value > -128)].max()
    most = ((value + 1 << drawing.BITS) - 1 - y[1])[inside[1] & (value < 127)].min()
    return int(least), int(most)


def with_constant(plan: DigitPlan, constant: int) -> DigitPlan:
    first = replace(plan.chain.levels[0], constants=(np.array([constant]),))
    return replace(plan, chain=replace(plan.chain, levels=(first, *plan.chain.levels[1:])))


def test_what_the_ends_of_runs_leave_of_the_constant(
    page: str, plan: DigitPlan, runs: Runs, drawing: ModuleType
) -> None:
    straight = 256 * drawing.M0
    least, most = bounds(runs, drawing, straight)
    assert most < least
    assert f"For M1 = 256 M0 = {straight} the largest lower bound is {least}" in page
    assert f"the smallest upper bound {most}: no constant" in page
    assert f"x * {drawing.M0} + {least + most >> 1}" in page
    least, most = bounds(runs, drawing, drawing.M1)
    assert least <= drawing.CONSTANT <= most
    assert f"With M1 = {drawing.M1} the bounds are {least} and {most}" in page
    tried = [least - 1, least, most, most + 1]
    proven = [prove_digits(with_constant(plan, each), runs).all() for each in tried]
    assert proven == [False, True, True, False]


PROGRAM = re.compile(
    r'(^```python title="(\w+\.py)"\n(.*?)^```\n\n```console\n\$ python \2\n)(.*?)^```$',
    re.DOTALL | re.MULTILINE,
)


def test_the_programs_of_the_page_print_what_it_shows(page: str, update_golden: bool) -> None:
    def printed(program: re.Match[str]) -> str:
        run = subprocess.run(
            [sys.executable, "-c", program[3]], capture_output=True, text=True, check=True
        )
        return f"{program[1]}{run.stdout}```"

    real = PROGRAM.sub(printed, page)
    if update_golden:
        (ROOT / PAGE).write_text(real, encoding="utf-8")
    assert update_golden or page == real, "pytest tests/docs/test_any_scale.py --update-golden"
    assert f"\n{REACH[1] - REACH[0] + 1} accumulators, 0 differ\n" in real
    assert f"\n{255 * 64 + 1} sums, 0 differ\n" in real
    assert len(PROGRAM.findall(page)) == page.count("```python") == 2


# --- the proof ------------------------------------------------------------------------------------
def test_what_the_page_says_of_each_term_is_so(page: str) -> None:
    """The plans are tests of the proof, each refused by one rule alone."""
    sentences = {
        "fits": "shifted by 8 to the left, acc = {at} is 2^32, of which 32 bits keep 0: VTA gives "
        "{made}, the rule {wanted}",
        "safe": "acc = {at} makes the sum wrap: VTA gives {made}, the rule {wanted}",
        "monotone": "{wanted} at both ends of the run {first} .. {last}, and {made} at {at}",
        "a carry": "{wanted} at {first} and at {last}, the ends of a run, and {made} at {at}",
        "dead": "{wanted} at both ends of the run {first} .. {last}, and {made} at {at}",
        "what a clamp leaves": "VTA gives {made}, the rule {wanted}",
        "the sign digit": "{wanted} at both ends of the run {first} .. {last}, and {made} at {at}",
    }
    for name, sentence in sentences.items():
        plan, runs, at = COUNTEREXAMPLES[name]
        where = np.array([at])
        said = sentence.format(
            at=at,
            made=int(device(plan, 0, where)[0]),
            wanted=int(outputs(runs, 0, where)[0]),
            first=int(runs.first[0, 0]),
            last=int(runs.last[0, -1]),
        )
        assert said in page, name


#: Scale, reach, rule, zero point and GEMM steps of a lane that gets each form.
FORMS = {
    "D2": (0.00989, 200_000, "double", -128, 9),
    "D2+s": (0.0099, 10_000, "double", 3, 9),
    "D3": (0.00226, 150_000, "double", -128, 9),
    "D3+s": (0.0016, 150_000, "double", 4, 9),
    "D3/2": (2.0**-12, 300_000, "float32", -128, 9),
    "P3": (0.01, 60_000, "double", -128, 1),
    "P4": (0.002, 100_000, "double", -128, 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_each_form_costs(form: str, page: str) -> None:
    scale, reach, rule, zero_point, sum_steps = FORMS[form]
    runs = made_runs(np.array([scale]), (-reach, reach), rule, zero_point)
    found: BlockPlan | None = plan_of(runs, sum_steps)
    assert found is not None
    assert name_of(found) == form
    sums = sums_of(found)
    rest = tail_steps(found, sum_steps, BLOCK) - sums * sum_steps
    assert f"| {form} | {'K' if sums == 1 else f'{sums} K'} + {rest} |" in page


# --- pictures -------------------------------------------------------------------------------------
def test_the_pictures_are_those_of_the_code(
    page: str, drawing: ModuleType, update_golden: bool
) -> None:
    for name, text in drawing.pictures().items():
        path = ROOT / "docs/images" / name
        if update_golden:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, "pytest --update-golden draws it anew"
        assert len(text) < 8000
        assert f'\n<div>\n--8<-- "docs/images/{name}"\n</div>\n' in page


# --- words ----------------------------------------------------------------------------------------
INTEGERS = ROOT / "python/loadstone/vta/integers"
#: Modules outside the folder that are about the same.
FURTHER = ("vta/schedule/rescaled", "vta/schedule/chain", "vta/schedule/window")
FURTHER += ("vta/operators/slots",)
#: Words that mean in this code what they mean in English, or in Python.
ENGLISH = {
    *("of", "on", "is", "all", "name", "find", "found", "search", "needs", "problem", "values"),
    *("output", "outputs", "integer", "largest", "lowest", "half", "limit", "last", "present"),
    *("native", "differing", "cycles", "int", "array", "range", "prove", "schedule", "spec"),
    *("interleaved", "between"),
}


def words_of_the_code() -> set[str]:
    """Of the names of modules, and of what they offer."""
    names = {*(path.stem for path in INTEGERS.glob("[a-z]*.py"))}
    names |= {name.rpartition("/")[2] for name in FURTHER}
    for path in [
        *INTEGERS.glob("[a-z]*.py"),
        *(ROOT / f"python/loadstone/{n}.py" for n in FURTHER),
    ]:
        offered = re.search(
            r"^__all__ = \[(.*?)\]", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        assert offered is not None, path
        names |= set(re.findall(r'"(\w+)"', offered[1]))
    return {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def terms_of_the_glossary() -> set[str]:
    """The words of its headings, and of the further terms in italics."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    heads = re.findall(r"^\*\*(.+)\*\*$", text, re.MULTILINE)
    heads += re.findall(r"\*([a-z ]+)\*", text)
    return {word for head in heads for word in re.findall(r"[a-z]+", head.lower())}


def stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def test_every_word_of_the_code_is_in_the_glossary() -> None:
    words = words_of_the_code() - ENGLISH
    assert len(words) > 40
    known = {stem(word) for word in terms_of_the_glossary()}
    assert sorted(word for word in words if stem(word) not in known) == []


def test_no_word_is_allowed_that_the_code_does_not_have() -> None:
    assert sorted(ENGLISH - words_of_the_code()) == []


def test_every_module_stands_in_the_table_of_the_page(page: str) -> None:
    table = page.partition("## The words of the code")[2]
    named = set(re.findall(r"`vta/integers/(\w+)\.py`", table))
    assert named == {path.stem for path in INTEGERS.glob("[a-z]*.py")}
