# SPDX-License-Identifier: Apache-2.0
"""limits.py: what lies within a limit both validators accept, and what lies beyond it they refuse
by its rule and at its instruction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError
from loadstone.runtime import device
from loadstone.vta.isa.insn import Finish
from loadstone.vta.isa.spec import Memory
from tests.vta.validator.limits import limits
from tests.vta.validator.one_instruction import INTEGERS, Case, gemm, load
from tests.vta.validator.validate import RULES, STATUS, validate

ROWS = limits()


def of_c(artifact: Artifact) -> tuple[int, int]:
    status, _, instruction = device.validate(artifact)
    return status, instruction if status else 0


def of_python(artifact: Artifact) -> tuple[str, int]:
    """The rule, and the instruction; "" where all is kept."""
    try:
        found = validate(artifact)
    except ConfigError:
        return "V0", 0
    return (found.rule, found.instruction) if found else ("", 0)


@pytest.mark.parametrize("name", ROWS)
def test_what_lies_beyond_a_limit_is_refused_and_nothing_else(name: str) -> None:
    rule, make = ROWS[name].rule, ROWS[name].make
    for more in (-1, 0, 1):
        case = make(more)
        artifact = case.artifact()
        broken = rule if more > 0 else ""
        status = STATUS[RULES[broken]] if broken else 0
        assert of_c(artifact) == (status, case.at if broken else 0), (name, more)
        assert of_python(artifact) == (broken, case.at if broken else 0), (name, more)


def test_a_load_of_micro_ops_leaves_those_behind_it() -> None:
    """Two are loaded, and one of them again: the third of the table, which reaches too far, is not
    there. Where it is, both refuse it."""
    far = INTEGERS.depth(Memory.ACC) - 1
    product = gemm(uop_end=2, iter_out=2, dst_out=1)
    for first, rule in ((1, ""), (2, "V12")):
        loads = load(Memory.UOP, x_size=2), load(Memory.UOP, dram_base=first, sram_base=2 - first)
        case = Case((*loads, product, Finish()), uops=((0, 0, 0), (0, 0, 0), (far, 0, 0)))
        status = STATUS[RULES[rule]] if rule else 0
        assert of_c(case.artifact()) == (status, 2 if rule else 0)
        assert of_python(case.artifact()) == (rule, 2 if rule else 0)


def test_every_rule_and_every_status_has_a_row(root: Path) -> None:
    page = (root / "runtime" / "VALIDATION.md").read_text()
    text, _, _ = page.partition("**Isolation.**")  # V17: test_isolated_rule.py
    rules = {found.rule for found in ROWS.values()} - {""}
    assert rules == set(re.findall(r"^\| (V\d+) \|", text, re.MULTILINE))
    source = (root / "runtime" / "validate.c").read_text()
    assert {RULES[rule] for rule in rules} == set(re.findall(r"LDS_ERR_(\w+)", source))
