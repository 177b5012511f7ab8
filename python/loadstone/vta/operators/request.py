# SPDX-License-Identifier: Apache-2.0
"""What is asked of the lowering of one layer, besides its integers and its device.

In:   what the compile was asked for (backend/request.py), the choices for this layer
      (schedule/choices.py), the back end's passes.
Out:  `LayerRequest`.
Next: every lowering of operators/ hands it down to kernels.py, which does as it says.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadstone.ir_pass.pipeline import NO_PASSES, Passes
from loadstone.vta.schedule.choices import NO_LAYER_CHOICE, LayerChoice

__all__ = ["PLAIN", "LayerRequest"]


@dataclass(frozen=True)
class LayerRequest:
    """The options for lowering one layer. choice: that of its schedule; open parts are chosen by
    the cost model. near: whether its outputs may be one level off. passes: those of the back end,
    on its TensorIR."""

    choice: LayerChoice = NO_LAYER_CHOICE
    near: bool = False
    passes: Passes = NO_PASSES

    @property
    def may_window(self) -> bool:
        """Whether steps can be those of DEPTHWISE, which TensorIR does not have."""
        return not self.passes.tensor_ir and not self.passes.loops


#: The cost model's choices, the framework's integers, and no passes besides our own.
PLAIN = LayerRequest()
