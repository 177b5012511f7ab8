# SPDX-License-Identifier: Apache-2.0
"""The functions that external steps of an artifact call, by name.

In:   functions of back ends (Backend.externals), and of the runtime itself.
Out:  External, their type; register_external, external_function.
Next: runtime/session.py calls them when the C runtime comes to an external step.

There is one table for the whole process: an artifact names a function, and any registered function
with this name executes the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from loadstone.numerics import Array

__all__ = ["External", "external_function", "register_external"]

#: A function of external steps: the arrays of its inputs and its attributes -> the arrays of its
#: outputs.
#: def run(arrays, attributes): return [device.compute(arrays[0], json.loads(attributes))]
External: TypeAlias = Callable[[Sequence[Array], str], Sequence[Array]]

_FUNCTIONS: dict[str, External] = {}


def register_external(name: str, function: External) -> None:
    """Registers `function` for external steps called `name`; a later one replaces an earlier
    one."""
    _FUNCTIONS[name] = function


def external_function(name: str) -> External | None:
    """The function registered under this name, or None."""
    return _FUNCTIONS.get(name)
