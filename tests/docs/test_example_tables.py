# SPDX-License-Identifier: Apache-2.0
"""Tables of the examples' devices with one mistake: what `loadstone conform` watches names the
instruction, for each reach that is missing, too small or too large, and each register of which it
is not said that it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from loadstone.conformance.reaches import _ENOUGH, ReachWatch
from loadstone.errors import LoadstoneError
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.form import InstructionForm, Reach
from loadstone.isa.terms import Term
from loadstone.runtime.accelerators import accelerators_of
from loadstone.simulator.table_profile import TableSimulator
from tests.board.models import convolutions, symmetric
from tests.conftest import ROOT
from tests.docs.test_example_programs import EXAMPLES, layers
from tests.repeat import ALL

_NINE = 9
#: Of two movers of one meaning the compiler takes the first.
UNTRIED = {"gemmini": ["mvin2"]}
#: Not seen: what the larger reach names besides is what the next reach names, wherever it stands;
#: and a register that only says when a meaning holds, which its function never looks at.
UNSEEN = {
    "descriptors": ["conv: reach 2 is too large"],
    "word_fifo": ["add: reach 1 is too large"],
    "gemmini": [f"compute_{kind}: reads no c_rows" for kind in ("preloaded", "accumulated")],
}


@dataclass(frozen=True)
class Mistake:
    """One instruction of a table, changed."""

    kind: str
    form: InstructionForm

    def of(self, accelerator: Accelerator) -> Accelerator:
        """The device as a table with this mistake describes it."""
        forms = tuple(
            self.form if form.name == self.form.name else form for form in accelerator.table.forms
        )
        return replace(accelerator, table=replace(accelerator.table, forms=forms))


@cache
def compiled(folder: str) -> tuple[Artifact, int, Accelerator]:
    """A small network for an example: its artifact, the device's number, the device."""
    target, network = EXAMPLES[folder]
    make = {
        "convolutions.tflite": convolutions,
        "layers.tflite": layers,
        "symmetric.onnx": symmetric,
    }
    with TemporaryDirectory() as made:
        make[network](Path(made))
        plugins = load_plugins([ROOT / "docs/examples" / folder])
        artifact = compile(Path(made) / network, target, plugins=plugins).artifact
    ((number, accelerator),) = accelerators_of(artifact).items()
    return artifact, number, accelerator


def mistakes(accelerator: Accelerator) -> Iterator[Mistake]:
    """Every reach without which, or with one place or turn less or more, the table is wrong; every
    register that is not said to be read."""
    for form in accelerator.table.forms:
        for number, reach in enumerate(form.reaches):
            others = form.reaches[:number], form.reaches[number + 1 :]
            for kind, changed in _changed(reach):
                made = (*others[0], *changed, *others[1])
                yield Mistake(
                    f"{form.name}: reach {number + 1} {kind}", replace(form, reaches=made)
                )
        for name in form.reads:
            reads = tuple(each for each in form.reads if each != name)
            yield Mistake(f"{form.name}: reads no {name}", replace(form, reads=reads))


def _changed(reach: Reach) -> Iterator[tuple[str, tuple[Reach, ...]]]:
    yield "is missing", ()
    yield "is too large", (replace(reach, extent=_more(reach.extent)),)
    if isinstance(reach.extent, int) and reach.extent > 1:
        yield "is too small", (replace(reach, extent=reach.extent - 1),)
    elif reach.loops:
        (_, stride), *inner = reach.loops
        yield "is too small", (replace(reach, loops=((1, stride), *inner)),)


def _more(term: Term) -> Term:
    """One more, in one of its factors."""
    first, *rest = str(term).split("*")
    more = f"{first[:-1]}+1)" if first.endswith(")") else f"({first}+1)"
    return "*".join([more, *rest])


def named(folder: str, mistake: Mistake) -> str:
    """What is said of a table with a mistake; "" where nothing is. The program runs as often as a
    reach must be tried before it is called too large."""
    artifact, number, accelerator = compiled(folder)
    wrong = mistake.of(accelerator)
    watch = ReachWatch(wrong)
    watches: Mapping[str, ReachWatch] = {wrong.name: watch}
    try:
        for _ in range(_ENOUGH):
            for _ in TableSimulator({number: wrong}).runs(artifact, watches=watches):
                pass
    except LoadstoneError as error:
        return str(error)
    found = [each.why for each in watch.findings() if each.instruction == mistake.form.name]
    return found[0] if found else ""


@pytest.mark.parametrize("folder", EXAMPLES)
def test_every_mistake_in_a_table_is_named(folder: str, figure: Callable[[str], None]) -> None:
    """Nine of each kind of device, and every one there is in `make test-all`; the table as it is
    has none."""
    artifact, number, accelerator = compiled(folder)
    sound = accelerator.table.forms[0]
    assert named(folder, Mistake("none", sound)) == ""
    watch = ReachWatch(accelerator)
    runs = TableSimulator({number: accelerator}).runs(artifact, watches={accelerator.name: watch})
    assert len(list(runs)) > 0
    assert watch.untried() == UNTRIED.get(folder, [])
    every = [
        one
        for one in mistakes(accelerator)
        if one.kind not in UNSEEN.get(folder, []) and one.form.name not in watch.untried()
    ]
    chosen = every if ALL else every[:: len(every) // _NINE][:_NINE]
    assert len(chosen) >= _NINE
    for mistake in chosen:
        said = named(folder, mistake)
        assert mistake.form.name in said, (mistake.kind, said)
    figure(f"{folder}: all of {len(chosen)} tables with a mistake are named")
