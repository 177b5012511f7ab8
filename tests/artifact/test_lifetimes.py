# SPDX-License-Identifier: Apache-2.0
"""lifetimes.py: when a tensor must stand in memory, by hand for networks of a few operators."""

from __future__ import annotations

from loadstone import graph as g
from loadstone.artifact.lifetimes import Lifetime, find_lifetimes
from loadstone.vta.region.offload import OffloadedRegion
from tests.artifact.test_deploy import CONFIG, conv, join, tensor


def region(name: str, graph: g.Graph, first: int, last: int) -> OffloadedRegion:
    seen = [t for o in graph.operators for t in (*o.inputs, *o.outputs)]
    operators = graph.operators[first:last]
    return OffloadedRegion(name, operators, [], seen, CONFIG)


def test_rows_live_from_their_maker_to_their_last_reader_and_io_nowhere() -> None:
    x, y, z = tensor("x", 1, 4, 4, 16), tensor("y", 1, 4, 4, 16), tensor("z", 1, 4, 4, 16)
    graph = g.Graph(name="n", inputs=(x,), outputs=(z,), operators=(conv(x, y), conv(y, z)))
    lifetimes = find_lifetimes(graph, graph.operators)
    assert lifetimes.rows == (Lifetime("y", 256, 0, 1),)
    assert lifetimes.arena == ()
    assert lifetimes.unpacked == frozenset()


def test_what_enters_or_leaves_a_program_lives_over_its_edge() -> None:
    x, a, b, y = (tensor(name, 1, 4, 4, 16) for name in "xaby")
    operators = (conv(x, a), conv(a, b), conv(b, y))
    graph = g.Graph(name="n", inputs=(x,), outputs=(y,), operators=operators)
    lifetimes = find_lifetimes(graph, [region("p", graph, 0, 3)])
    claims = {claim.name: (claim.first, claim.last) for claim in lifetimes.arena}
    assert claims == {"x": (0, 0), "a": (0, 1), "b": (1, 2), "y": (2, 2)}
    assert lifetimes.rows == ()  # input and output have regions of their own
    assert lifetimes.unpacked == {"y"}


def test_a_tensor_between_programs_is_no_rows_until_a_host_operator_reads_it() -> None:
    x, a, y = (tensor(name, 1, 4, 4, 16) for name in "xay")
    graph = g.Graph(name="n", inputs=(x,), outputs=(y,), operators=(conv(x, a), conv(a, y)))
    apart = find_lifetimes(graph, [region("p", graph, 0, 1), region("q", graph, 1, 2)])
    assert apart.rows == ()
    assert apart.unpacked == {"y"}
    host = find_lifetimes(graph, [region("p", graph, 0, 1), graph.operators[1]])
    assert host.rows == (Lifetime("a", 256, 0, 1),)
    assert host.unpacked == {"a"}


def test_a_part_keeps_its_whole_alive() -> None:
    """The parts of a concatenation have no bytes of their own."""
    x, a, b = (tensor(name, 1, 4, 4, 16) for name in "xab")
    joined = join("y", a, b)
    operators = (conv(x, a), conv(x, b), joined)
    graph = g.Graph(name="n", inputs=(x,), outputs=joined.outputs, operators=operators)
    lifetimes = find_lifetimes(graph, [region("p", graph, 0, 3)])
    claims = {claim.name: claim for claim in lifetimes.arena}
    assert set(claims) == {"x", "y"}
    assert claims["y"] == Lifetime("y", 512, 0, 2)
