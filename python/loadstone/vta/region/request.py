# SPDX-License-Identifier: Apache-2.0
"""The options for lowering a region, besides its operators and its device.

In:   the compile's request (backend/request.py), the back end's passes, the results of its
      predicates.
Out:  `RegionRequest`, and the LayerRequest of each operator.
Next: patterns.py, fold_pixels.py and offload.py follow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadstone import graph as g
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.ir_pass.pipeline import NO_PASSES, Passes
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators import LoweredOperator
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.choices import (
    NO_LAYER_CHOICE,
    RegionChoice,
    layer_choice,
    region_choice,
)

__all__ = ["RegionRequest"]


@dataclass(frozen=True, eq=False)
class RegionRequest:
    """schedules: choices for layers and regions; None: the cost model's. near, passes: as of
    LayerRequest. taken: what the predicates lowered, by operator, with the cost model's choices."""

    schedules: ScheduleChoices | None = None
    near: bool = False
    passes: Passes = NO_PASSES
    taken: Mapping[g.Operator, LoweredOperator] = field(default_factory=dict)

    def of_layer(self, op: g.Operator, config: HwConfig) -> LayerRequest:
        """What is asked of one operator."""
        return LayerRequest(layer_choice(op, config, self.schedules), self.near, self.passes)

    def of_region(self, operators: Sequence[g.Operator], config: HwConfig) -> RegionChoice:
        """What is chosen of these together, as they are before columns are folded."""
        return region_choice(operators, config, self.schedules)

    def lowered(self, op: g.Operator, request: LayerRequest) -> LoweredOperator | None:
        """What its predicate made of an operator; None where it was not asked about this very
        operator, or other choices hold than it followed."""
        return self.taken.get(op) if request.choice == NO_LAYER_CHOICE else None
