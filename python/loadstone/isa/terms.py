# SPDX-License-Identifier: Apache-2.0
"""Numbers that an instruction says: a field, a number, or a product of such.

In:   texts and numbers of a table; the fields of an instruction.
Out:  their factors; what they come to.
Next: table.py checks them, c_table.py gives them to the validator, machine.py counts with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import TypeAlias

from loadstone.errors import ConfigError

__all__ = ["MAX_FACTORS", "Factor", "Term", "factors", "term_value"]

#: Factors of one term of a Reach.
MAX_FACTORS = 4
#: A number, the name of the field that says it, or a product of such: "height*width*4"; a field
#: that holds one less than it means is "(rows+1)".
Term: TypeAlias = int | str
#: A factor as (field, what is added to it); of a plain number the field is None.
Factor: TypeAlias = tuple[str | None, int]
_FACTOR = re.compile(r"(\d+)|([a-z][a-z0-9_]*)|\(([a-z][a-z0-9_]*)\+(\d+)\)")


@cache
def factors(term: Term) -> tuple[Factor, ...]:
    """The factors of a term. Raises ConfigError for a text that is none."""
    found: list[Factor] = []
    for text in str(term).replace(" ", "").split("*"):
        parts = _FACTOR.fullmatch(text)
        if parts is None:
            raise ConfigError(
                f"term {term!r}: {text!r} is no number, no field and no (FIELD+NUMBER)"
            )
        number, field, increased, more = parts.groups()
        found.append((field or increased, int(number or more or 0)))
    return tuple(found)


def term_value(term: Term, fields: Mapping[str, int]) -> int:
    """What a term comes to in an instruction."""
    if isinstance(term, int):
        return term
    if term in fields:
        return fields[term]
    return prod((fields[field] if field else 0) + more for field, more in factors(term))
