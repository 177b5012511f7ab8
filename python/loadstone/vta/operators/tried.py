# SPDX-License-Identifier: Apache-2.0
"""What was lowered to see whether it fits, kept until the same operator is lowered for good.

In:   an operator of the graph, a device.
Out:  its LoweredOperator, made once.
Next: region/patterns.py tries; region/offload.py takes what was tried, so that nothing is kept
      behind it.

Kept by the operator itself, not by what it says: the partition hands the very operator that it
asked about to the region. What nobody takes goes, with its operator, when the next one is tried.
(Not in a weak dictionary: its callbacks are Python, and one that Ctrl-C meets swallows it.)
"""

from __future__ import annotations

from weakref import ref

from loadstone import graph as g
from loadstone.backend.interface import Backend, current
from loadstone.backend.schedule_choices import in_force
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators import LoweredOperator, lower_operator

__all__ = ["lower_and_keep", "take"]

_Key = tuple[HwConfig, Backend | None]
#: By the operator's identity, which another may have when it is gone.
_kept: dict[int, tuple[ref[g.Operator], dict[_Key, LoweredOperator]]] = {}


def lower_and_keep(op: g.Operator, config: HwConfig) -> LoweredOperator:
    """As lower_operator, of an operator whose input nobody has folded."""
    lowered = lower_operator(op, config)
    for key in [key for key, (operator, _) in _kept.items() if operator() is None]:
        del _kept[key]
    _kept.setdefault(id(op), (ref(op), {}))[1][config, current()] = lowered
    return lowered


def take(op: g.Operator, config: HwConfig) -> LoweredOperator | None:
    """What lower_and_keep made for this device and back end; None where it was not asked. It is
    kept no longer."""
    operator, found = _kept.get(id(op), (None, {}))
    if operator is None or operator() is not op:
        return None
    if in_force() is not None:  # it was tried with the cost model's choices
        return None
    lowered = found.pop((config, current()), None)
    if not found:
        del _kept[id(op)]
    return lowered
