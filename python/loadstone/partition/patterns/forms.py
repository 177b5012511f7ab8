"""The words that patterns are written in.

In:   nothing.
Out:  small functions that build TVM's dataflow patterns: op, dq, tail ...
Next: the files beside this one.
"""

from __future__ import annotations

from typing import Any

from loadstone.relax.compat import dpl

__all__ = ["anything", "const", "dq", "op", "q", "tail"]


def anything() -> Any:
    """Any expression."""
    return dpl.wildcard()


def const() -> Any:
    """A constant."""
    return dpl.is_const()


def op(name: str) -> Any:
    """A call to relax.<name>, of the arguments that follow."""
    return dpl.is_op("relax." + name)


def dq(inner: Any = None) -> Any:
    """dequantize(inner) by constants."""
    return op("dequantize")(anything() if inner is None else inner, const(), const())


def q(inner: Any) -> Any:
    """quantize(inner) by constants."""
    return op("quantize")(inner, const(), const())


def tail(core: Any) -> Any:
    """What ends an operator: an activation or none, then quantize."""
    return q(core | op("nn.relu")(core) | op("clip")(core, anything(), anything()))
