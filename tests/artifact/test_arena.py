# SPDX-License-Identifier: Apache-2.0
"""arena.py: buffers that live together never overlap, and sharing is worth something."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadstone.artifact.arena import plan
from loadstone.artifact.lifetimes import Lifetime

buffers = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 20), st.integers(0, 6)).map(
        lambda t: (t[0], t[1], t[1] + t[2])
    ),
    max_size=25,
).map(lambda rows: [Lifetime(f"t{k}", *row) for k, row in enumerate(rows)])


@given(buffers)
def test_buffers_that_live_together_never_overlap(given_buffers: list[Lifetime]) -> None:
    result = plan(given_buffers, 64)
    for i, a in enumerate(given_buffers):
        start = result.offset_bytes[a.name]
        assert start % 64 == 0
        assert start + a.size_bytes <= result.size_bytes
        for b in given_buffers[i + 1 :]:
            if a.first <= b.last and b.first <= a.last:
                other = result.offset_bytes[b.name]
                assert start + a.size_bytes <= other or other + b.size_bytes <= start


@given(buffers)
def test_size_lies_between_the_bound_and_the_sum(given_buffers: list[Lifetime]) -> None:
    result = plan(given_buffers, 64)
    assert result.bound_bytes <= result.size_bytes <= result.sum_bytes


def test_a_chain_needs_two_buffers() -> None:
    chain = [Lifetime(f"t{k}", 1024, k, k + 1) for k in range(10)]
    result = plan(chain)
    assert result.size_bytes == result.bound_bytes == 2048
    assert result.sum_bytes == 10240


def test_alignment_is_kept() -> None:
    result = plan([Lifetime("a", 1, 0, 1), Lifetime("b", 1, 0, 1)], 1024)
    assert sorted(result.offset_bytes.values()) == [0, 1024]
