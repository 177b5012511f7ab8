# SPDX-License-Identifier: Apache-2.0
"""What a module becomes on Relax before it is divided.

In:   an IRModule in canonical form; back ends.
Out:  the module with the runtime's operators on rows, after the back ends' own passes.
Next: eager.py, cost/: who takes which operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.backend.interface import Backend, Phase
from loadstone.backend.scope import apply_passes
from loadstone.passes.log import PassLog, script
from loadstone.relax.dynamic_rows import with_row_operators
from loadstone.relax.interface import verify_interface

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["relax_passed"]


def relax_passed(
    module: IRModule,
    backends: Sequence[Backend],
    log: PassLog | None = None,
    *,
    own_runtime: bool = True,
) -> IRModule:
    """A module in canonical form after the back ends' own passes on Relax. own_runtime: scales that
    each row gets when the network runs are found by the runtime's operators, which another runtime
    does not have."""

    def run(given: IRModule) -> IRModule:
        made = with_row_operators(given) if own_runtime else given
        passed: IRModule = apply_passes(backends, Phase.RELAX, made)
        return passed

    log = log or PassLog()
    return log.run("relax_passes", run, module, verify=verify_interface, show=script)
