# SPDX-License-Identifier: Apache-2.0
"""hosts/cut.py: groups of nodes, and what is left to a host."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import UnsupportedError
from loadstone.hosts.cut import CutModel, Node, boundary, groups


def chain(*edges: tuple[str, str]) -> list[Node]:
    """One node for each edge: what it reads (names, parted by a blank), and what it makes."""
    return [Node(k, tuple(i.split()), tuple(o.split())) for k, (i, o) in enumerate(edges)]


def whole(nodes: list[Node], *outputs: str) -> CutModel:
    return CutModel("m", nodes, outputs, lambda *_: b"", ".none")


def test_a_node_in_the_middle_parts_two_groups() -> None:
    nodes = chain(("x", "a"), ("a", "b"), ("b", "c"), ("c", "d"))
    assert groups(nodes, {0, 1, 3}) == [[0, 1], [3]]
    assert groups(nodes, {0, 1, 2, 3}) == [[0, 1, 2, 3]]
    assert groups(nodes, set()) == []


def test_a_detour_over_the_host_parts_what_it_leaves() -> None:
    """a -> b directly, and a -> c (host) -> b: a and b together would wait for each other."""
    nodes = chain(("x", "a"), ("a", "c"), ("a c", "b"))
    assert groups(nodes, {0, 2}) == [[0], [2]]


def test_branches_that_share_nothing_are_groups_of_their_own() -> None:
    nodes = chain(("x", "a"), ("z", "b"), ("a", "c"), ("b", "d"), ("c d", "e"))
    assert groups(nodes, {0, 1, 2, 3}) == [[0, 2], [1, 3]]
    assert groups(nodes, {0, 1, 2, 3, 4}) == [[0, 1, 2, 3, 4]]


def test_no_group_waits_for_itself_in_random_networks() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        count = int(random.integers(1, 12))
        nodes = []
        for k in range(count):
            read = random.choice(k + 1, size=int(random.integers(1, 3)))
            nodes.append(Node(k, tuple(f"t{i}" for i in set(read.tolist())), (f"t{k + 1}",)))
        taken = {k for k in range(count) if random.random() < 0.6}
        found = groups(nodes, taken)
        assert sorted(k for group in found for k in group) == sorted(taken)
        group_of = {k: number for number, group in enumerate(found) for k in group}
        assert has_order(nodes, [group_of.get(k, count + k) for k in range(count)])


def has_order(nodes: list[Node], group_of: list[int]) -> bool:
    """Whether groups, each run in one piece, can follow each other."""
    maker = {name: node.index for node in nodes for name in node.outputs}
    needs: dict[int, set[int]] = {group: set() for group in group_of}
    for node in nodes:
        sources = {group_of[maker[name]] for name in node.inputs if name in maker}
        needs[group_of[node.index]] |= sources - {group_of[node.index]}
    while needs:
        ready = [group for group, wanted in needs.items() if not wanted & needs.keys()]
        if not ready:
            return False
        for group in ready:
            del needs[group]
    return True


def test_the_boundary_of_a_group() -> None:
    nodes = chain(("x", "a"), ("a y", "b"), ("b", "c"), ("a", "d"))
    assert boundary(whole(nodes, "c", "b"), [0, 1]) == (("x", "y"), ("a", "b"))
    assert boundary(whole(nodes, "c"), [2]) == (("b",), ("c",))
    assert boundary(whole(nodes, "d"), [0, 1, 2, 3]) == (("x", "y"), ("d",))


def test_a_model_without_nodes_says_so() -> None:
    from loadstone.backend.target import resolve
    from loadstone.hosts.cut import cut

    with pytest.raises(
        UnsupportedError, match=r"^m: no part of it runs on vtaq-tiny,llvm: it has no"
    ):
        cut(whole([]), resolve("vtaq-tiny"))
