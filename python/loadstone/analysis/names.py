# SPDX-License-Identifier: Apache-2.0
"""Names of layers, short enough for a table and a picture.

In:   names from model files: `model/conv2d/BiasAdd;model/conv2d/Conv2D1`.
Out:  the last component, with as many before it as make it unique: `conv2d/Conv2D1`.
Next: report.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from loadstone.printable import one_line

__all__ = ["plain_name", "short_names"]

_MOST = 6
#: What the compiler appends to the name of a tensor that it converts to another type.
_ADDED = re.compile(r"(/(int8|real\d+))+$")
#: Last components of a fused TFLite operator's name that do not name the operator.
_AUXILIARY = ("BiasAdd", "ReadVariableOp", "resource")


def plain_name(name: str) -> str:
    """The tensor's name in the float network: `scores` for `scores/int8` and for `scores/real1`."""
    return _ADDED.sub("", name)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Whole name -> short one, different for different names; the name of a step that packs or
    unpacks a tensor keeps its verb."""
    whole = {name: name.partition(" ") for name in names}
    moves = {name for name, (first, _, _) in whole.items() if first in ("pack", "unpack")}
    short = _short([whole[name][2] if name in moves else name for name in names])
    return {
        name: f"{whole[name][0]} {short[whole[name][2]]}" if name in moves else short[name]
        for name in names
    }


def _short(names: Sequence[str]) -> dict[str, str]:
    wholes = list(dict.fromkeys(names))
    parts = {name: _main(one_line(name)).split("/") for name in wholes}
    short = {name: parts[name][-1] or one_line(name) for name in wholes}
    for count in range(2, _MOST):
        seen = Counter(short.values())
        for name in wholes:
            if seen[short[name]] > 1:
                short[name] = "/".join(parts[name][-count:])
    seen = Counter(short.values())
    return {name: one_line(name) if seen[text] > 1 else text for name, text in short.items()}


def _main(name: str) -> str:
    """The last part that names more than a bias: `conv/Conv2D` for `conv/Conv2D;conv/BiasAdd`."""
    parts = name.split(";")
    telling = [p for p in parts if p.rsplit("/", 1)[-1].rstrip("0123456789") not in _AUXILIARY]
    return (telling or parts)[-1]
