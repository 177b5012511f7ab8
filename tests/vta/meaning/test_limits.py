# SPDX-License-Identifier: Apache-2.0
"""The limits of validator/limits.py: what lies within, simulator and reference execute; what lies
beyond they refuse where the rule is theirs, and each of their refusals has a row."""

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
from loadstone.errors import EncodingError, SimulationError
from loadstone.library.native import ffi, lib
from loadstone.vta.isa.spec import MAX_REGIONS
from loadstone.vta.meaning import reference
from loadstone.vta.meaning.reference import DramBytes, Machine
from loadstone.vta.simulator.sim import Simulator
from tests.vta.validator.limits import limits
from tests.vta.validator.one_instruction import Case

ROWS = limits()


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
def test_what_lies_within_a_limit_is_executed_and_what_lies_beyond_is_refused(name: str) -> None:
    for more in (-1, 0):
        case = ROWS[name].make(more)
        artifact = case.artifact()
        assert (of_simulator(case, artifact), of_reference(case, artifact)) == ("", ""), more
    case = ROWS[name].make(1)
    for letter, stopped in (("s", of_simulator), ("r", of_reference)):
        if letter in ROWS[name].also:
            assert stopped(case, case.artifact()), letter


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
