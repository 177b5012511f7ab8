# SPDX-License-Identifier: Apache-2.0
"""What a compiled model holds, and when it is sound.

In:   frozen dataclasses: regions and tensors (memory_plan.py), device programs, host steps
      (host_step.py).
Out:  ArtifactContent, which checks itself against the rules of runtime/FORMAT.md.
Next: format.py's Artifact is one that is written and read.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise

from loadstone.artifact.file_layout import require
from loadstone.artifact.host_step import HostStep
from loadstone.artifact.memory_plan import (
    MAX_REGIONS,
    BufferView,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.program_step import ProgramStep
from loadstone.backend.device import INSN_BYTES, DeviceProgram

__all__ = ["ArtifactContent"]


@dataclass(frozen=True)
class ArtifactContent:
    """All that a file holds. inputs and outputs are indices of tensors; `samples` is what a run
    takes.

    fingerprint: HwConfig.fingerprint(), 20 bytes. Steps run in order.
    """

    name: str
    fingerprint: bytes
    samples: int
    regions: tuple[MemoryRegion, ...]
    tensors: tuple[BufferView, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[DeviceProgram | ProgramStep | HostStep, ...]
    device: str = ""  # HwConfig.name, for people

    @property
    def config_hash(self) -> int:
        """CRC-32 of the fingerprint, as in register CONFIG_HASH."""
        return zlib.crc32(self.fingerprint)

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """The device programs, in order."""
        return tuple(s for s in self.steps if isinstance(s, DeviceProgram))

    @property
    def other_programs(self) -> tuple[ProgramStep, ...]:
        """The programs of other devices, in order."""
        return tuple(s for s in self.steps if isinstance(s, ProgramStep))

    @property
    def described_programs(self) -> tuple[ProgramStep, ...]:
        """Those of devices that plug-ins describe, in order."""
        return tuple(s for s in self.other_programs if not s.is_vta)

    @property
    def further_programs(self) -> tuple[ProgramStep, ...]:
        """Those of further VTAs, in order."""
        return tuple(s for s in self.other_programs if s.is_vta)

    @property
    def all_programs(self) -> tuple[DeviceProgram | ProgramStep, ...]:
        """Both, in order."""
        return tuple(s for s in self.steps if not isinstance(s, HostStep))

    def code_of(self, step: ProgramStep) -> bytes:
        """The instructions of one, its addresses 0."""
        tensor = self.tensors[step.code]
        end = tensor.offset_bytes + tensor.size_bytes
        return self.regions[tensor.region].data[tensor.offset_bytes : end]

    @property
    def numbered_programs(self) -> tuple[tuple[int, DeviceProgram], ...]:
        """The programs of all devices, in order, with the numbers of their steps: the same kind,
        wherever the file keeps their instructions."""
        return tuple(
            (number, step if isinstance(step, DeviceProgram) else self.program_of(step))
            for number, step in enumerate(self.steps)
            if not isinstance(step, HostStep)
        )

    def program_of(self, step: ProgramStep) -> DeviceProgram:
        """That of another device."""
        return DeviceProgram(
            step.name,
            self.code_of(step),
            step.layers,
            step.program_device,
            step.instructions,
            step.relocations,
        )

    @property
    def has_states(self) -> bool:
        """Whether a run leaves something for the next one."""
        return any(region.kind == RegionKind.STATE for region in self.regions)

    def check(self) -> None:
        """Raises ArtifactError naming the first rule of runtime/FORMAT.md that is broken."""
        require(
            len(self.fingerprint) == 20 and self.fingerprint[0] == 1,
            "R5",
            "the fingerprint is not 20 bytes of version 1",
        )
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
        before: DeviceProgram | ProgramStep | HostStep | None = None
        for step in self.steps:
            if isinstance(step, HostStep | ProgramStep):
                step.check(self.tensors, self.regions)
            else:
                _check_program(step)
            follows = isinstance(before, DeviceProgram | ProgramStep)
            alone = not isinstance(step, ProgramStep) or not step.beside
            require(alone or follows, "R23", f"program {step.name!r} is beside no other")
            before = step
        codes = [self.tensors[step.code] for step in self.other_programs]
        for one, behind in pairwise(codes):
            require(
                one.region == behind.region
                and behind.offset_bytes >= one.offset_bytes + one.size_bytes,
                "R23",
                f"{behind.name!r} does not stand behind {one.name!r} in one region",
            )


def _check_program(program: DeviceProgram) -> None:
    size = len(program.instructions)
    sound = size > 0 and size % INSN_BYTES == 0
    require(
        sound,
        "R18",
        f"device program {program.name!r} has {size} bytes, which is no positive multiple of "
        f"{INSN_BYTES}",
    )
    own = program.device is None and program.insn_count is None and not program.relocations
    require(
        own,
        "R18",
        f"device program {program.name!r} is of another device, or has addresses: that is a "
        "ProgramStep",
    )
    last = 0
    for layer in program.layers:
        require(
            last <= layer.first <= layer.first + layer.count <= len(program),
            "R22",
            f"layer {layer.name!r} leaves the {len(program)} instructions of {program.name!r}, or "
            "begins in another",
        )
        last = layer.first + layer.count
