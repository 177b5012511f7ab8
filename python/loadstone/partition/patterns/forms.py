# SPDX-License-Identifier: Apache-2.0
"""The building blocks of patterns.

In:   nothing.
Out:  small functions that build TVM's dataflow patterns: op, dq, tail ...
Next: the files beside this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.relax.compat import dpl

if TYPE_CHECKING:
    from loadstone.relax.types import DFPattern

__all__ = ["anything", "const", "dq", "op", "q", "tail"]


def anything() -> DFPattern:
    """Any expression."""
    return dpl.wildcard()


def const() -> DFPattern:
    """A constant."""
    return dpl.is_const()


def op(name: str) -> DFPattern:
    """A call to relax.<name>, of the arguments that follow."""
    return dpl.is_op("relax." + name)


def dq(inner: DFPattern | None = None) -> DFPattern:
    """dequantize(inner) by constants."""
    return op("dequantize")(anything() if inner is None else inner, const(), const())


def q(inner: DFPattern) -> DFPattern:
    """quantize(inner) by constants."""
    return op("quantize")(inner, const(), const())


def tail(core: DFPattern) -> DFPattern:
    """The end of an operator: an activation or none, then quantize."""
    return q(core | op("nn.relu")(core) | op("clip")(core, anything(), anything()))
