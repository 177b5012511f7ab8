# SPDX-License-Identifier: Apache-2.0
"""Whether an instruction touches exactly the places that its table names: each instruction that a
program executes is tried by itself.

In:   the state before an instruction, its fields, the places that its reaches name.
Out:  ReachFinding: an instruction, and the places that its meaning touches though no reach names
      them, or that a reach names though its meaning never touches them; the instructions that no
      program executed, of which nothing is said.
Next: check.py reports them. isa/machine.py calls the watch before each instruction.

The validator on the board, the order of instructions and their time depend on the reaches alone, so
reaches are compared with the meaning. A meaning is a function in Python or in C of which nothing is
known; what it touches is found from outside, by running it on copies (trial.py):

- DRAM holds only the bytes that a reach names; an access to any other is a fault.
- Local memories hold what the reaches read; every other byte has one value in a first run and
  another in a second. What changes outside the places that a reach writes is written without being
  named. What comes out differently in the two runs depends on a byte that no reach reads.
- A reach is too large if its first or its last place is touched in no execution: if a row keeps
  its value in both runs; if a row may hold anything and nothing comes out differently; if DRAM may
  lack the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loadstone.conformance.trial import CONTENTS, Trial, differing
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.form import DRAM, InstructionForm, Reach
from loadstone.isa.state import DRAM_BOUNDS, MachineFault, MachineState

__all__ = ["ReachFinding", "ReachWatch"]

#: Executions after which a reach that was never touched whole is called too large.
_ENOUGH = 4
#: Of those that differ in more than addresses, how many are tried for a reach not yet seen whole.
_MOST = 100


@dataclass(frozen=True)
class ReachFinding:
    """instruction: its name. memory: "dram", or a local memory's name. why: one line."""

    instruction: str
    memory: str
    why: str


@dataclass
class _Whole:
    """Whether the first and the last place of a reach were touched. tried: executions in which
    that was looked at; executions: with those that differ from them in addresses alone."""

    tried: int = 0
    executions: int = 0
    first: bool = False
    last: bool = False


@dataclass
class ReachWatch:
    """Watches one accelerator's programs. found: by instruction, memory and kind, the first."""

    accelerator: Accelerator
    found: dict[tuple[str, str, str], ReachFinding] = field(default_factory=dict)
    _executed: set[str] = field(default_factory=set)
    _whole: dict[tuple[str, int], _Whole] = field(default_factory=dict)
    _tried: set[tuple[object, ...]] = field(default_factory=set)

    def __call__(
        self,
        form: InstructionForm,
        fields: Mapping[str, int],
        state: MachineState,
        touched: Sequence[tuple[Reach, int, int]],
    ) -> None:
        """Tries one instruction on copies of what it works on. touched: (reach, first, end) of
        each reach that is not empty. Those that differ in addresses alone are tried once."""
        self._executed.add(form.name)
        meaning = self.accelerator.meaning.get(form.name)
        addresses = {bits.name for bits in form.fields if bits.address}
        key = (form.name, *(fields[name] for name in fields if name not in addresses))
        for reach, _, _ in touched:
            if reach not in form.reaches:
                continue  # words on the way to another memory
            whole = self._whole.setdefault((form.name, form.reaches.index(reach)), _Whole())
            whole.executions += 1
        if meaning is None or key in self._tried:
            return
        self._tried.add(key)
        trial = Trial(meaning, fields, state, touched)
        try:
            for contents in CONTENTS:
                self._is_sound(form, trial, contents)
            self._is_tight(form, trial)
        except MachineFault as fault:
            if fault.error == DRAM_BOUNDS:  # of another fault the program itself stops
                places = f"more of dram from {fault.address:#x} on than its reaches name"
                self._note(form, DRAM, "outside", f"touches {places} ({trial.said(DRAM)})")

    def untried(self) -> list[str]:
        """The instructions with reaches that no program executed, in the table's order."""
        forms = self.accelerator.table.forms
        return [form.name for form in forms if form.reaches and form.name not in self._executed]

    def findings(self) -> Iterator[ReachFinding]:
        """What is touched and not named, then what is named and not touched."""
        yield from self.found.values()
        for (name, number), whole in self._whole.items():
            reach = self.accelerator.table.by_name[name].reaches[number]
            few = whole.executions < _ENOUGH or not whole.tried
            if few or (whole.first and whole.last):
                continue
            end = "last" if whole.first else "first"
            place = "byte" if reach.memory == DRAM else "row"
            done = "written" if reach.writes else "read"
            why = (
                f"{name}: reach {number + 1} names more of {reach.memory} than is {done}: its "
                f"{end} {place} was touched in none of {whole.executions} executions"
            )
            yield ReachFinding(name, reach.memory, why)

    # --- inside -----------------------------------------------------------------------------------
    def _note(self, form: InstructionForm, memory: str, kind: str, why: str) -> None:
        found = ReachFinding(form.name, memory, f"{form.name}: {why}")
        self.found.setdefault((form.name, memory, kind), found)

    def _is_sound(self, form: InstructionForm, trial: Trial, contents: int) -> None:
        first, second = (trial.ran(others=which, contents=contents) for which in (0, 1))
        if first is None:
            return  # a meaning that refuses such contents
        runs = [run for run in (first, second) if run is not None]
        for memory, named in trial.written.items():
            rows = np.unique(np.concatenate([run.changed(memory) for run in runs]))
            rows = rows[~named[rows]]
            if len(rows):
                places = _places(trial, memory, int(rows[0]), int(rows[-1]))
                self._note(form, memory, "written", f"writes {places}, which no reach names so")
        known = any(key[0] == form.name and key[2] == "read" for key in self.found)
        if not known and (second is None or differing(first, second)):
            memory, row = trial.unnamed_source(first, contents)
            places = _places(trial, memory, row, row)
            self._note(form, memory, "read", f"reads {places}, which no reach names so")

    def _is_tight(self, form: InstructionForm, trial: Trial) -> None:
        for reach, first, end in trial.touched:
            if reach not in form.reaches:
                continue
            number = form.reaches.index(reach)
            whole = self._whole[form.name, number]
            if (whole.first and whole.last) or whole.tried >= _MOST:
                continue
            if any(trial.is_named_elsewhere(reach, place) for place in (first, end - 1)):
                continue  # which of the two it is touched for, nobody can see
            whole.tried += 1
            whole.first = whole.first or trial.touches(reach, first)
            whole.last = whole.last or trial.touches(reach, end - 1)


def _places(trial: Trial, memory: str, first: int, last: int) -> str:
    """Rows of a local memory, bytes of DRAM: in words, with what the reaches name."""
    what = "byte" if memory == DRAM else "row"
    ends = [trial.place(memory, row) for row in (first, last)]
    some = f"{what} {ends[0]}" if first == last else f"{what}s {ends[0]} to {ends[1]}"
    return f"{some} of {memory} ({trial.said(memory)})"
