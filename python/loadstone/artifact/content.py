# SPDX-License-Identifier: Apache-2.0
"""What a compiled model holds, and when it is sound.

In:   frozen dataclasses: regions and tensors (memory_plan.py), devices, programs, host steps
      (host_step.py).
Out:  ArtifactContent, which checks itself against the rules of runtime/FORMAT.md.
Next: format.py's Artifact is one that is written and read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from loadstone.artifact.file_layout import require
from loadstone.artifact.host_step import HostStep
from loadstone.artifact.memory_plan import (
    MAX_REGIONS,
    BufferView,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.program_step import check_program
from loadstone.backend.device import FINGERPRINT_BYTES, ProgramDevice, ProgramStep
from loadstone.errors import ArtifactError

__all__ = ["ArtifactContent", "ModelEntry"]

Content = TypeVar("Content", bound="ArtifactContent")


@dataclass(frozen=True)
class ModelEntry:
    """One of the functions of a model: how many of its steps, inputs and outputs are this one's,
    each behind those of the entry before it."""

    name: str
    steps: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class ArtifactContent:
    """All that a file holds. inputs and outputs are indices of tensors; `samples` is what a run
    takes. Device 0 is that of the session which runs it; steps run in order. entries: functions
    that share constants, states and memory, and divide steps, inputs and outputs among them; none:
    there is one, all of it."""

    name: str
    devices: tuple[ProgramDevice, ...]
    samples: int
    regions: tuple[MemoryRegion, ...]
    tensors: tuple[BufferView, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[ProgramStep | HostStep, ...]
    entries: tuple[ModelEntry, ...] = ()

    @property
    def entry_names(self) -> tuple[str, ...]:
        """In the order of the file: the first runs where nobody names one. ("",) for a model
        without entries."""
        return tuple(entry.name for entry in self.entries) or ("",)

    def entry_number(self, name: str | None) -> int:
        """None: the first. Raises ArtifactError for a name that the model does not have."""
        if name is None:
            return 0
        if name not in self.entry_names:
            known = ", ".join(repr(each) for each in self.entry_names if each)
            what = f"it has {known}" if known else "it has no entries by name"
            raise ArtifactError(f"model {self.name!r} has no entry {name!r}: {what}")
        return self.entry_names.index(name)

    def entry_of(self, step: int) -> str:
        """The name of the entry that a step belongs to, by its number; "" without entries."""
        for entry in self.entries:
            if step < entry.steps:
                return entry.name
            step -= entry.steps
        return ""

    def only(self: Content, number: int = 0) -> Content:
        """The model as if this entry were all of it; steps keep no numbers of the file."""
        if not self.entries:
            return self
        own, before = self.entries[number], self.entries[:number]
        steps, inputs, outputs = (
            sum(getattr(entry, part) for entry in before) for part in ("steps", "inputs", "outputs")
        )
        return replace(
            self,
            steps=self.steps[steps : steps + own.steps],
            inputs=self.inputs[inputs : inputs + own.inputs],
            outputs=self.outputs[outputs : outputs + own.outputs],
            entries=(),
        )

    @property
    def device(self) -> str:
        """The name of device 0, for people."""
        return self.devices[0].name

    @property
    def fingerprint(self) -> bytes:
        """That of device 0."""
        return self.devices[0].fingerprint

    @property
    def config_hash(self) -> int:
        """That of device 0, as in its register CONFIG_HASH."""
        return self.devices[0].config_hash

    @property
    def programs(self) -> tuple[ProgramStep, ...]:
        """All programs, in order."""
        return tuple(s for s in self.steps if isinstance(s, ProgramStep))

    @property
    def numbered_programs(self) -> tuple[tuple[int, ProgramStep], ...]:
        """The programs, in order, with the numbers of their steps."""
        return tuple((n, s) for n, s in enumerate(self.steps) if isinstance(s, ProgramStep))

    @property
    def further(self) -> tuple[int, ...]:
        """The numbers of the devices besides device 0 that have programs."""
        return tuple(sorted({p.device for p in self.programs} - {0}))

    @property
    def at_work(self) -> tuple[ProgramDevice, ...]:
        """The devices that have programs, in order; device 0 where no device has."""
        numbers = sorted({program.device for program in self.programs}) or [0]
        return tuple(self.devices[number] for number in numbers)

    def names_at_work(self, own: str) -> list[str]:
        """The names of `at_work`, for people. own: the name of device 0 where it was opened."""
        others = [device.name for device in self.at_work if device is not self.devices[0]]
        return [own] * (len(others) < len(self.at_work)) + others

    def programs_of(self, device: int) -> tuple[ProgramStep, ...]:
        """Those of one device, by its number."""
        return tuple(s for s in self.programs if s.device == device)

    def device_of(self, step: ProgramStep) -> ProgramDevice:
        """Whose program it is."""
        return self.devices[step.device]

    def check(self) -> None:
        """Raises ArtifactError naming the first rule of runtime/FORMAT.md that is broken."""
        require(bool(self.devices), "R5", "there is no device")
        for device in self.devices:
            _check_device(device)
        require(1 <= self.samples < 1 << 32, "R6", f"samples={self.samples} is not at least 1")
        require(
            len(self.regions) <= MAX_REGIONS,
            "R8",
            f"there are {len(self.regions)} regions, more than {MAX_REGIONS}",
        )
        for region in self.regions:
            region.check()
        for tensor in self.tensors:
            tensor.check(self.regions)
        for index in (*self.inputs, *self.outputs):
            require(
                0 <= index < len(self.tensors),
                "R17",
                f"tensor {index} is an input or output, but there are {len(self.tensors)}",
            )
            tensor = self.tensors[index]
            sound = (
                tensor.layout == ViewLayout.ROW_MAJOR
                and len(tensor.shape) >= 1
                and tensor.shape[0] % self.samples == 0
            )
            require(
                sound,
                "R17",
                f"input or output {tensor.name!r} is not row-major with a multiple of "
                f"{self.samples} rows",
            )
        for index in self.inputs:
            kind = self.regions[self.tensors[index].region].kind
            require(
                kind != RegionKind.CONSTANTS,
                "R17",
                f"input {self.tensors[index].name!r} is in constants",
            )
        before: ProgramStep | HostStep | None = None
        for step in self.steps:
            if isinstance(step, HostStep):
                step.check(self.tensors, self.regions)
            else:
                check_program(step, self.devices, self.regions)
                alone = not step.beside or isinstance(before, ProgramStep)
                require(alone, "R18", f"program {step.name!r} is beside no other")
            before = step
        self._check_entries()

    def _check_entries(self) -> None:
        if not self.entries:
            return
        for part in ("steps", "inputs", "outputs"):
            found, all_of_it = sum(getattr(e, part) for e in self.entries), len(getattr(self, part))
            require(
                found == all_of_it,
                "R24",
                f"the entries have {found} {part}, the model has {all_of_it}",
            )
        require(self.entries[0].steps > 0, "R24", "the first entry has no steps")


def _check_device(device: ProgramDevice) -> None:
    sound = len(device.fingerprint) == FINGERPRINT_BYTES
    if sound and device.has_configuration:
        sound = device.fingerprint[0] == 1
    require(
        sound,
        "R5",
        f"the fingerprint of device {device.name!r} has not {FINGERPRINT_BYTES} bytes, or is a "
        "configuration of another version than 1",
    )
