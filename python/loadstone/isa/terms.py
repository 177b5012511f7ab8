# SPDX-License-Identifier: Apache-2.0
"""Numbers that an instruction says: a field, a number, a sum, a comparison, or a product of such.

In:   texts and numbers of a table; the fields of an instruction.
Out:  their factors; what they come to.
Next: table.py checks them, c_table.py gives them to the validator, machine.py counts with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from loadstone.errors import ConfigError

__all__ = [
    "MAX_FACTORS",
    "Factor",
    "Sum",
    "Term",
    "factors",
    "fields_of",
    "number_of",
    "term_value",
]

#: Factors of one term of a Reach.
MAX_FACTORS = 4
#: A number, the name of the field that says it, or a product of factors: "height*width*4". A factor
#: in parentheses is a sum, "(rows+1)" or "(top+rows+bottom)", or a comparison of two sums by =, <
#: or >, which is 1 where it holds and 0 otherwise: "rows*(mode=2)" counts rows in mode 2 alone.
Term: TypeAlias = int | str
_ITEM = re.compile(r"(\d+)|([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)?)")
_INSIDE = re.compile(r"\(([^()=<>]+)(?:([=<>])([^()=<>]+))?\)")


@dataclass(frozen=True)
class Sum:
    """Fields, and a number that is added to them."""

    fields: tuple[str, ...] = ()
    number: int = 0

    def value(self, values: Mapping[str, int]) -> int:
        """What it comes to in an instruction."""
        value = self.number
        for name in self.fields:
            value += values[name]
        return value


@dataclass(frozen=True)
class Factor:
    """One factor: a sum; or, where `other` is one, whether the sum equals it (`below` False), or is
    less than it (`below` True)."""

    sum: Sum
    other: Sum | None = None
    below: bool = False

    def sums(self) -> Iterator[Sum]:
        """The one or two sums that it consists of."""
        yield self.sum
        if self.other is not None:
            yield self.other

    def value(self, values: Mapping[str, int]) -> int:
        """What it comes to in an instruction."""
        left = self.sum.value(values)
        if self.other is None:
            return left
        right = self.other.value(values)
        return int(left < right if self.below else left == right)


@cache
def factors(term: Term) -> tuple[Factor, ...]:
    """The factors of a term. Raises ConfigError for a text that is none."""
    return tuple(_factor(term, text) for text in str(term).replace(" ", "").split("*"))


def fields_of(term: Term) -> tuple[str, ...]:
    """The fields that it depends on, each once."""
    sums = (one for factor in factors(term) for one in factor.sums())
    return tuple(dict.fromkeys(name for one in sums for name in one.fields))


def _factor(term: Term, text: str) -> Factor:
    inside = _INSIDE.fullmatch(text)
    if inside is None:
        return Factor(_sum(term, text, text))
    left, relation, right = inside.groups()
    found = _sum(term, text, *left.split("+"))
    if relation is None:
        return Factor(found)
    other = _sum(term, text, *right.split("+"))
    if relation == ">":
        found, other = other, found
    return Factor(found, other, below=relation != "=")


def _sum(term: Term, text: str, *items: str) -> Sum:
    fields, number = [], 0
    for item in items:
        parts = _ITEM.fullmatch(item)
        if parts is None:
            raise ConfigError(
                f"term {term!r}: {text!r} is no number, no field, no sum (FIELD+NUMBER) and no "
                "comparison (FIELD=NUMBER)"
            )
        if parts[2] is not None:
            fields.append(parts[2])
        else:
            number += int(parts[1])
    return Sum(tuple(fields), number)


def term_value(term: Term, fields: Mapping[str, int]) -> int:
    """What a term comes to in an instruction."""
    if isinstance(term, int):
        return term
    if term in fields:
        return fields[term]
    value = 1
    for factor in factors(term):
        value *= factor.value(fields)
        if value == 0:
            break
    return value


def number_of(term: Term, known: Mapping[str, int]) -> int | None:
    """The value of a term of which some fields are known; None where it depends on others. One
    factor that is 0 decides it."""
    value: int | None = 1
    for factor in factors(term):
        if not all(name in known for one in factor.sums() for name in one.fields):
            value = None
        elif factor.value(known) == 0:
            return 0
        elif value is not None:
            value *= factor.value(known)
    return value
