# SPDX-License-Identifier: Apache-2.0
"""limits.py: what lies within a limit all four judges accept, and what lies beyond it they refuse.

The validators by its rule and at its instruction; the simulator and the reference where the rule is
theirs as well.
"""

from __future__ import annotations

import re
import traceback
from ast import Raise, parse, walk
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError, EncodingError, SimulationError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.isa.spec import MAX_REGIONS
from loadstone.vta.meaning import reference
from loadstone.vta.meaning.reference import DramBytes, Machine
from loadstone.vta.simulator.sim import Simulator
from tests.vta.validator.limits import limits
from tests.vta.validator.one_instruction import Case
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


def memories(artifact: Artifact) -> list[npt.NDArray[np.uint8]]:
    return [
        np.frombuffer(r.data.ljust(r.size_bytes, b"\0"), np.uint8).copy() for r in artifact.regions
    ]


def of_simulator(case: Case, artifact: Artifact) -> str:
    """Why it stops; "": it does not."""
    if case.fingerprint:
        raw = ffi.cast("lds_hw_config *", ffi.from_buffer(case.fingerprint))
        made = lib().lds_sim_create(raw, 64)
        if made == ffi.NULL:
            return "no device"
        lib().lds_sim_destroy(made)
        return ""
    simulator = Simulator(case.config, timing=False, strict=False)
    for number, (memory, region) in enumerate(
        zip(memories(artifact), artifact.regions, strict=True)
    ):
        simulator.map(number << 20, memory)
        simulator.set_region(number, number << 20, memory.size, read_only=not region.device_writes)
    for number in range(len(artifact.regions), MAX_REGIONS):
        simulator.set_region(number, 0, 0)
    try:
        simulator.run(case.code, address=1 << 30)
    except SimulationError as error:
        return str(error)
    return ""


def of_reference(case: Case, artifact: Artifact) -> str:
    """Why it stops, and where in reference.py; "": it does not."""
    if case.fingerprint:
        return ""
    regions = [
        DramBytes(memory, writable=region.device_writes)
        for memory, region in zip(memories(artifact), artifact.regions, strict=True)
    ]
    try:
        Machine(case.config, regions).run(case.code)
    except (SimulationError, EncodingError) as error:
        first = error.__context__ or error
        frames = traceback.extract_tb(first.__traceback__)
        mine = [f.lineno for f in frames if f.filename == reference.__file__]
        return f"{mine[-1]}: {error}"
    return ""


@pytest.mark.parametrize("name", ROWS)
def test_what_lies_beyond_a_limit_is_refused_and_nothing_else(name: str) -> None:
    rule, also, make = (getattr(ROWS[name], field) for field in ("rule", "also", "make"))
    for more in (-1, 0, 1):
        case = make(more)
        artifact = case.artifact()
        broken = rule if more > 0 else ""
        status = STATUS[RULES[broken]] if broken else 0
        assert of_python(artifact) == (broken, case.at if broken else 0), (name, more)
        assert of_c(artifact) == (status, case.at if broken else 0), (name, more)
        if more > 0:
            for letter, stopped in (("s", of_simulator), ("r", of_reference)):
                if letter in also:
                    assert stopped(case, artifact), (name, letter)
        else:
            assert (of_simulator(case, artifact), of_reference(case, artifact)) == ("", ""), more


def test_every_rule_and_every_status_has_a_row(root: Path) -> None:
    text = (root / "runtime" / "VALIDATION.md").read_text()
    rules = {found.rule for found in ROWS.values()} - {""}
    assert rules == set(re.findall(r"^\| (V\d+) \|", text, re.MULTILINE))
    source = (root / "runtime" / "validate.c").read_text()
    assert {RULES[rule] for rule in rules} == set(re.findall(r"LDS_ERR_(\w+)", source))


def beyond(letter: str) -> Iterator[tuple[Case, Artifact]]:
    for found in ROWS.values():
        if letter in found.also:
            case = found.make(1)
            yield case, case.artifact()


def test_every_refusal_of_the_reference_has_a_row() -> None:
    source = Path(reference.__file__).read_text()
    said = {node.lineno for node in walk(parse(source)) if isinstance(node, Raise)}
    again = next(n for n, line in enumerate(source.splitlines(), 1) if "{number}: {error}" in line)
    met = {int(of_reference(*each).partition(":")[0]) for each in beyond("r")}
    assert said - {again} <= met


def test_every_refusal_of_the_simulators_decoder_has_a_row(root: Path) -> None:
    source = (root / "hw_sim" / "program.cc").read_text().partition("namespace {")[2]
    texts = [
        max(re.split(r"%\w", text), key=len) for text in re.findall(r'"([^"\n]{12,})"', source)
    ]
    met = [of_simulator(*each) for each in beyond("s")]
    assert len(texts) > 15
    assert [text for text in texts if not any(text in message for message in met)] == []
