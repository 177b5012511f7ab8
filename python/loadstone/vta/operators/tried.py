"""What was lowered to see whether it fits, kept until the same operator is lowered for good.

In:   an operator of the graph, a device.
Out:  its LoweredOperator, made once.
Next: patterns.py tries; offload.py takes what was tried, so that nothing is kept behind it.

Kept by the operator itself, not by what it says: the partition hands the very operator that it
asked about to the region. What nobody takes goes with the operator.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from loadstone import graph as g
from loadstone.backend.interface import Backend, current
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.operators import LoweredOperator, lower_operator

__all__ = ["lower_and_keep", "take"]

_Key = tuple[HwConfig, Backend | None]
_kept: WeakKeyDictionary[g.Operator, dict[_Key, LoweredOperator]] = WeakKeyDictionary()


def lower_and_keep(op: g.Operator, config: HwConfig) -> LoweredOperator:
    """As lower_operator, of an operator whose input nobody has folded."""
    lowered = lower_operator(op, config)
    _kept.setdefault(op, {})[config, current()] = lowered
    return lowered


def take(op: g.Operator, config: HwConfig) -> LoweredOperator | None:
    """What lower_and_keep made for this device and back end; None where it was not asked. It is
    kept no longer."""
    found = _kept.get(op, {}).pop((config, current()), None)
    if op in _kept and not _kept[op]:
        del _kept[op]
    return found
