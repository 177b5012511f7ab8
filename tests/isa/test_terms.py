# SPDX-License-Identifier: Apache-2.0
"""What an instruction says by fields, numbers and products of them."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.table import Reach
from loadstone.isa.terms import factors, term_value


def test_a_term_is_a_product() -> None:
    """Some devices hold sizes, not bytes, and some hold one less than they mean."""
    fields = {"height": 3, "width": 5, "rows": 7}
    assert factors("height*width*4") == (("height", 0), ("width", 0), (None, 4))
    assert factors("(rows+1)") == (("rows", 1),)
    values = [term_value(t, fields) for t in (9, "rows", "(rows+1)", "height * width*(rows+1)*2")]
    assert values == [9, 7, 8, 240]
    reach = Reach("dram", "a", (("(rows+1)", "width*16"),), "width*4", writes=True)
    assert reach.places({**fields, "a": 100}) == (100, 100 + 7 * 80 + 20)


@pytest.mark.parametrize("text", ["a+1", "a**b", "", "(a+b)", "A", "a*-1"])
def test_refuses(text: str) -> None:
    with pytest.raises(ConfigError, match="is no number, no field"):
        factors(text)
