# SPDX-License-Identifier: Apache-2.0
"""The back end for VTA and VTA-Q, as a table of contents.

In:   a HwConfig.
Out:  VtaBackend: the operators that it takes, and the lowering of a segment of them.
Next: partition/eager.py uses the patterns, compiler.py the regions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from loadstone.backend.interface import Backend, Pattern, Phase, Segment
from loadstone.backend.lowering import passes_of
from loadstone.backend.region import LoweredRegion
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability
from loadstone.vta.operators import LoweredOperator
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.region.addresses import is_free
from loadstone.vta.region.byte_planes import with_byte_planes
from loadstone.vta.region.cores import CoresRegion
from loadstone.vta.region.further import FurtherRegion
from loadstone.vta.region.offload import OffloadedRegion
from loadstone.vta.region.patterns import patterns
from loadstone.vta.region.real_network import fold_real
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.schedule.choices import device_digest

__all__ = ["VtaBackend"]


class VtaBackend(Backend):
    """One VTA or VTA-Q device."""

    name: ClassVar[str] = "vta"

    def __init__(
        self, config: HwConfig, *, further: bool = False, cores: Sequence[HwConfig] = ()
    ) -> None:
        """further: the artifact's own device is another VTA, and this one stands beside it. cores:
        equal devices that work together, the first is `config`; none: it is alone."""
        self.config = self.device = config
        self.cores = tuple(cores) or (config,)
        self.device_count = len(self.cores)
        self.further = further
        if further:
            self.name = config.name  # type: ignore[misc]  # one class for all of them
        if config.is_float:
            self.scheme = "float"
        elif not config.has(Capability.REQUANTIZE):
            self.scheme = "pow2"  # it can only shift

    @property
    def schedule_digest(self) -> str:
        """Of its configuration, its bus and its timing."""
        return device_digest(self.config)

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """The device, for reports."""
        return {"device": self.config.name, "clock_mhz": self.config.clock_mhz}

    def patterns(self) -> Sequence[Pattern]:
        """The common forms, each as far as this device can lower it."""
        return patterns(
            self.config, LayerRequest(near=self.request.is_near, passes=passes_of(self.passes))
        )

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        """A device of bfloat16 takes a float network as it is, batch normalizations folded; another
        one gives sums of int32 as planes of bytes, unless it stores them as they are."""
        if phase is not Phase.RELAX:
            return ()
        if self.config.is_float:
            return (fold_real,)
        if self.config.has(Capability.STORE_ACC):
            return ()
        return (partial(with_byte_planes, block=self.config.block),)

    def lower(self, segment: Segment) -> LoweredRegion:
        """Forms, constants, and the program once they are placed."""
        request = RegionRequest(
            self.request.schedules,
            self.request.is_near,
            passes_of(self.passes),
            {
                operator: said.lowered
                for operator, said in segment.taken.items()
                if isinstance(said.lowered, LoweredOperator)
            },
        )
        seen = (*segment.inputs, *segment.outputs)
        parts = segment.name, segment.operators, segment.from_host, seen
        if len(self.cores) > 1:
            return CoresRegion(*parts, self.cores, request)
        region = OffloadedRegion(*parts, self.config, request)
        return FurtherRegion(region) if self.further else region

    def cost_cycles(self, segment: Segment) -> int | None:
        """None: the program is simulated. What addresses alone do takes nothing, once its inputs
        are on the device."""
        free = not segment.from_host and all(
            is_free(operator, self.config) for operator in segment.operators
        )
        return 0 if free else None
