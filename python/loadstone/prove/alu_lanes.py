# SPDX-License-Identifier: Apache-2.0
"""What ALU's operations, RQ aside, do to lanes of symbols.

In:   an operation, the lanes that it changes, and its operands: numbers, or lanes.
Out:  the lanes, changed; Unsupported for what a proof does not follow.
Next: machine.py.
"""

from __future__ import annotations

from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.verdict import Unsupported
from loadstone.vta.isa.spec import AluOp

__all__ = ["by_lanes", "by_numbers"]


def by_numbers(lanes: SymbolLanes, operation: AluOp, changed: Integers, numbers: Integers) -> None:
    """numbers: one for each of the lanes `changed`."""
    match operation:
        case AluOp.ADD:
            lanes.add_numbers(changed, numbers)
        case AluOp.SHR:
            lanes.shift(changed, numbers)
        case AluOp.MUL:
            lanes.scale(changed, numbers)
        case _:
            kind = FunctionKind.MIN if operation == AluOp.MIN else FunctionKind.MAX
            lanes.step(changed, kind, numbers[:, None])


def by_lanes(lanes: SymbolLanes, operation: AluOp, changed: Integers, others: Integers) -> None:
    """others: a lane for each of the lanes `changed`, whose value depends on inputs. Raises
    Unsupported."""
    match operation:
        case AluOp.ADD:
            lanes.add_lanes(changed, others)
        case AluOp.MAX:
            lanes.largest(changed, others)
        case AluOp.MUL:
            lanes.of_two(changed, others, FunctionKind.PRODUCT_OF_TWO)
        case AluOp.MIN:
            lanes.of_two(changed, others, FunctionKind.MIN_OF_TWO)
        case _:
            raise Unsupported("ALU SHR by activations")
