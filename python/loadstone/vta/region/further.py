# SPDX-License-Identifier: Apache-2.0
"""A segment on a further VTA of an artifact.

In:   an OffloadedRegion.
Out:  FurtherRegion: the same with its own names in memory and a program for another device
      (runtime/FORMAT.md, Devices and Programs).
Next: artifact/deploy.py; runtime/accelerators.py opens the device.

Two VTAs may have tiles of different sizes: a tensor that both use is in memory twice, and the host
packs it from one layout into the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from loadstone.backend.device import ProgramDevice, ProgramStep
from loadstone.backend.region import Address, DeviceLayout, LoweredRegion
from loadstone.numerics import Array
from loadstone.passes.log import PassRun
from loadstone.vta.region.offload import OffloadedRegion

__all__ = ["FurtherRegion"]


class FurtherRegion(LoweredRegion):
    """Lowered for a further VTA."""

    def __init__(self, region: OffloadedRegion) -> None:
        self.region = region
        self.name = region.name
        self.operators = region.operators
        self.config = region.config
        self.aliases: Mapping[str, tuple[str, int]] = {
            self._own(name): (self._own(whole), offset)
            for name, (whole, offset) in region.aliases.items()
        }
        self.constants: Mapping[str, tuple[Array, int]] = {
            self._own(name): value for name, value in region.constants.items()
        }

    @property
    def program_device(self) -> ProgramDevice:
        """Whose program it is."""
        return ProgramDevice.of(self.config)

    @property
    def align_bytes(self) -> int:
        """Its largest tile."""
        return self.config.align_bytes

    @property
    def remarks(self) -> Mapping[str, str]:
        """As on a VTA alone."""
        return self.region.remarks

    @property
    def runs(self) -> Sequence[PassRun]:
        """As on a VTA alone."""
        return self.region.runs

    @property
    def layouts(self) -> Sequence[tuple[DeviceLayout, int, int]]:
        """Under names of its own."""
        return [
            (replace(layout, name=self._own(layout.name)), first, last)
            for layout, first, last in self.region.layouts
        ]

    def build(self, addresses: Mapping[str, Address], uops: Address) -> tuple[ProgramStep, bytes]:
        """The program and its micro-op table."""
        return self.region.build(self._places(addresses), uops)

    def programs(
        self, addresses: Mapping[str, Address], uops: Callable[[], Address]
    ) -> Iterator[tuple[ProgramStep, bytes]]:
        """As on a VTA alone."""
        self.region.piece_cycles = self.piece_cycles
        return self.region.programs(self._places(addresses), uops)

    def _places(self, addresses: Mapping[str, Address]) -> dict[str, Address]:
        """By the names that the region has for them."""
        names = [layout.name for layout, _, _ in self.region.layouts]
        names += [*self.region.constants, *self.region.aliases]
        return {n: addresses[self._own(n)] for n in names}

    def _own(self, name: str) -> str:
        return f"{name} for {self.device}"
