# SPDX-License-Identifier: Apache-2.0
"""addresses.py: what is part of what; tests/vta/region/test_offload.py has the programs of it."""

from __future__ import annotations

from loadstone.vta.region.addresses import find_aliases
from tests import lowered as lo
from tests.vta.region.test_offload import CONFIG, addition, concatenation


def test_a_tensor_is_part_of_one_whole_only() -> None:
    """The second concatenation of one tensor copies, and so does one of an input."""
    made = addition("a", "b", "p")
    twice = concatenation(made.output, made.output)
    assert find_aliases([made, twice], CONFIG) == {}
    outside = concatenation(lo.tensor("x", (1, 4, 4, 16)), made.output)
    assert find_aliases([made, outside], CONFIG) == {}
