# SPDX-License-Identifier: Apache-2.0
"""partition/cost/search.py: equal to exhaustive search on random graphs, and what decides between
plans, one rule at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from loadstone.partition.cost.search import ROWS, Candidate, PartitionPlan, Problem, Read, search
from tests.draw import Random
from tests.repeat import times

#: Random graphs that are compared with exhaustive search.
GRAPHS = int(os.environ.get("LOADSTONE_PLAN_GRAPHS", times(60, 200)))
MEMORIES = (ROWS, "npu", "vta")


# --- exhaustive search: every cover, by the definition of what it costs ---------------------------
def covers(
    problem: Problem, done: frozenset[int] = frozenset(), chosen: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Every set of candidates that covers each node once."""
    missing = [node for node in range(problem.nodes) if node not in done]
    if not missing:
        yield chosen
        return
    for index, candidate in enumerate(problem.candidates):
        if missing[0] in candidate.covers and not candidate.covers & done:
            yield from covers(problem, done | candidate.covers, (*chosen, index))


def executable(plan: Sequence[Candidate]) -> bool:
    """Whether there is an order in which everything is written before it is read."""
    waiting, unwritten = list(plan), {tensor for candidate in plan for tensor in candidate.writes}
    while waiting:
        ready = [c for c in waiting if not any(read.tensor in unwritten for read in c.reads)]
        if not ready:
            return False
        waiting = [c for c in waiting if c not in ready]
        unwritten -= {tensor for candidate in ready for tensor in candidate.writes}
    return True


def cost_of(problem: Problem, plan: Sequence[Candidate]) -> int:
    """Candidates, and for each tensor its rows and every other form once."""
    total = sum(candidate.cost_ns for candidate in plan)
    maker = {tensor: candidate.memory for candidate in plan for tensor in candidate.writes}
    for tensor in {*maker, *(read.tensor for candidate in plan for read in candidate.reads)}:
        made_in = maker.get(tensor, ROWS)
        readers = [
            (c.memory, r)
            for c in plan
            for r in c.reads
            if r.tensor == tensor and c.memory != made_in
        ]
        if made_in != ROWS and (readers or tensor in problem.outputs):
            total += problem.unpack_ns[tensor, made_in]
        packed = [read for memory, read in readers if memory != ROWS]
        total += sum({read.layout: read.pack_ns for read in packed}.values()) + sum(
            read.extra_ns for read in packed
        )
    return total


def cheapest(problem: Problem) -> int | None:
    """By trying every cover; one that costs too much before any change of form need not be looked
    at."""
    least = [c.cost_ns + sum(min(0, read.extra_ns) for read in c.reads) for c in problem.candidates]
    best: int | None = None
    for indices in covers(problem):
        if best is None or sum(least[index] for index in indices) < best:
            plan = [problem.candidates[index] for index in indices]
            cost = cost_of(problem, plan)
            best = cost if (best is None or cost < best) and executable(plan) else best
    return best


# --- random problems ------------------------------------------------------------------------------
def random_problem(draw: Random, nodes: int) -> Problem:
    """A DAG of `nodes`, each read by a few; every node alone in some of the memories, and connected
    groups fused."""
    edges = [
        sorted({draw.int(max(0, node - 4), node - 1) for _ in range(draw.int(0, 2))})
        if node
        else []
        for node in range(nodes)
    ]
    used = [[later for later in range(nodes) if node in edges[later]] for node in range(nodes)]
    outputs = frozenset(
        f"t{node}" for node in range(nodes) if not used[node] or draw.int(0, 9) == 0
    )
    groups = [frozenset((node,)) for node in range(nodes)]
    for _ in range(draw.int(0, nodes)):
        group = {draw.int(0, nodes - 1)}
        for _ in range(draw.int(1, 3)):
            near = sorted({m for n in group for m in (*edges[n], *used[n])} - group)
            group |= {near[draw.int(0, len(near) - 1)]} if near else set()
        groups += [frozenset(group)] if len(group) > 1 else []
    candidates = []
    for number, group in enumerate(groups):
        own = [memory for memory in MEMORIES if draw.int(0, 3)] or [ROWS]
        for memory in own:
            written = {
                n
                for n in group
                if f"t{n}" in outputs or not used[n] or any(later not in group for later in used[n])
            }
            if (
                len(group) > 1 and len(written) > 1 and draw.int(0, 3)
            ):  # mostly a fused candidate has one result
                continue
            sources = sorted({m for n in group for m in edges[n]} - group)
            feeds = [f"t{m}" for m in sources] + [f"x{n}" for n in sorted(group) if not edges[n]]
            form = "" if draw.int(0, 2) else f"for {number}"
            reads = tuple(
                Read(
                    t,
                    f"{memory}{form}",
                    price(f"{t}{memory}{form}"),
                    draw.int(-5, 5) if form else 0,
                )
                if memory != ROWS
                else Read(t)
                for t in feeds
            )
            cost = draw.int(0, 40) * len(group)
            candidates.append(
                Candidate(
                    f"{memory}{sorted(group)}",
                    memory,
                    group,
                    reads,
                    tuple(f"t{n}" for n in sorted(written)),
                    cost,
                )
            )
    unpack = {
        (f"t{node}", memory): price(f"t{node}{memory}")
        for node in range(nodes)
        for memory in MEMORIES[1:]
    }
    return Problem(nodes, candidates, outputs, unpack)


def price(text: str) -> int:
    """Some number below 30 that belongs to a text."""
    return sum(ord(letter) * (7 + place) for place, letter in enumerate(text)) % 30


def found(problem: Problem, plan: PartitionPlan) -> list[Candidate]:
    """The plan's candidates; each node is covered once, and all is written before it is read."""
    chosen = [problem.candidates[index] for index in plan.candidates]
    assert sorted(node for candidate in chosen for node in candidate.covers) == list(
        range(problem.nodes)
    )
    written: set[str] = set()
    made = {tensor for candidate in chosen for tensor in candidate.writes}
    for candidate in chosen:
        assert all(read.tensor in written or read.tensor not in made for read in candidate.reads)
        written.update(candidate.writes)
    return chosen


def test_it_equals_exhaustive_search_on_random_graphs() -> None:
    draw, fused, impossible, crossing = Random(7), 0, 0, 0
    for number in range(GRAPHS):
        problem = random_problem(draw, 1 + number % 10)
        plan = search(problem)
        wanted = cheapest(problem)
        assert (plan is None) == (wanted is None), f"graph {number}"
        if plan is None:
            impossible += 1
            continue
        chosen = found(problem, plan)
        assert plan.exact
        assert plan.cost_ns == wanted == cost_of(problem, chosen), f"graph {number}"
        fused += any(len(candidate.covers) > 1 for candidate in chosen)
        crossing += len({candidate.memory for candidate in chosen}) > 1
    assert (fused > GRAPHS / 10, crossing > GRAPHS / 2, impossible < GRAPHS / 4) == (
        True,
        True,
        True,
    ), "the graphs say too little"


# --- one rule at a time ---------------------------------------------------------------------------
def single(
    node: int, memory: str, cost_ns: int, reads: Sequence[str], pack_ns: int = 0
) -> Candidate:
    """One node; it writes t<node>."""
    feeds = tuple(Read(t, memory, 0 if memory == ROWS else pack_ns) for t in reads)
    return Candidate(f"{memory} {node}", memory, frozenset((node,)), feeds, (f"t{node}",), cost_ns)


def labels(problem: Problem, plan: PartitionPlan | None) -> list[str]:
    assert plan is not None
    return [problem.candidates[index].label for index in plan.candidates]


def chain(rows_ns: int, npu_ns: int, transfer_ns: int, nodes: int = 3) -> Problem:
    reads = ["x", *(f"t{node}" for node in range(nodes - 1))]
    candidates = [single(node, "npu", npu_ns, [reads[node]], transfer_ns) for node in range(nodes)]
    candidates += [single(node, ROWS, rows_ns, [reads[node]]) for node in range(nodes)]
    return Problem(
        nodes,
        candidates,
        frozenset((f"t{nodes - 1}",)),
        {(f"t{node}", "npu"): transfer_ns for node in range(nodes)},
    )


def test_a_device_pays_when_it_saves_more_than_the_transfers_cost() -> None:
    cheap, dear = chain(10, 4, 8), chain(10, 4, 10)
    assert labels(cheap, search(cheap)) == ["npu 0", "npu 1", "npu 2"]
    assert labels(dear, search(dear)) == ["rows 0", "rows 1", "rows 2"]


def test_of_equal_plans_the_preferred_wins() -> None:
    even = chain(10, 4, 9)
    plan = search(even)
    assert plan is not None
    assert plan.cost_ns == 30
    assert labels(even, plan) == ["npu 0", "npu 1", "npu 2"]
    turned = replace(even, candidates=even.candidates[::-1])
    assert labels(turned, search(turned)) == ["rows 0", "rows 1", "rows 2"]


def test_a_tensor_is_packed_once_for_all_who_read_it() -> None:
    nodes = [
        single(node, memory, ns, ["x"], 10)
        for node in range(3)
        for memory, ns in (("npu", 1), (ROWS, 5))
    ]
    joined = [
        Candidate(
            "join", ROWS, frozenset((3,)), tuple(Read(f"t{node}") for node in range(3)), ("t3",), 0
        )
    ]
    free = {(f"t{node}", "npu"): 0 for node in range(3)}
    problem = Problem(4, [*nodes, *joined], frozenset(("t3",)), free)
    plan = search(problem)
    assert labels(problem, plan) == ["npu 0", "npu 1", "npu 2", "join"]
    assert plan is not None
    assert plan.cost_ns == 10 + 3


def test_two_fused_candidates_that_wait_for_each_other_are_no_plan() -> None:
    """a -> d and b -> c: {a, c} and {b, d} would each need the other's result first."""
    feeds = {0: ["x"], 1: ["x"], 2: ["t1"], 3: ["t0"]}
    singles = [single(node, ROWS, 10, feeds[node]) for node in range(4)]
    left = Candidate("left", ROWS, frozenset((0, 2)), (Read("x"), Read("t1")), ("t0", "t2"), 1)
    right = Candidate("right", ROWS, frozenset((1, 3)), (Read("x"), Read("t0")), ("t1", "t3"), 1)
    problem = Problem(4, [left, right, *singles], frozenset(("t2", "t3")), {})
    plan = search(problem)
    assert plan is not None
    assert plan.cost_ns == 21
    assert search(replace(problem, candidates=[left, right])) is None


def test_a_fused_candidate_waits_for_a_node_behind_its_first() -> None:
    feeds = {0: ["x"], 1: ["x"], 2: ["t0", "t1"]}
    singles = [single(node, ROWS, 10, feeds[node]) for node in range(3)]
    fused = Candidate("fused", ROWS, frozenset((0, 2)), (Read("x"), Read("t1")), ("t2",), 1)
    problem = Problem(3, [fused, *singles], frozenset(("t2",)), {})
    assert labels(problem, search(problem)) == ["rows 1", "fused"]


def test_a_beam_says_that_it_is_no_longer_exact() -> None:
    """What is cheaper now is dearer later: its result must be packed."""
    first = [single(0, ROWS, 5, ["x"]), single(0, "npu", 7, ["x"])]
    problem = Problem(
        2,
        [*first, single(1, "npu", 1, ["t0"], 50)],
        frozenset(("t1",)),
        {("t0", "npu"): 0, ("t1", "npu"): 0},
    )
    assert search(problem) == PartitionPlan((1, 2), 8, exact=True)
    assert search(problem, width=1) == PartitionPlan((0, 2), 56, exact=False)


def test_a_long_network_has_few_states() -> None:
    problem = chain(10, 4, 8, nodes=1000)
    plan = search(problem, width=4)
    assert plan is not None
    assert plan.exact
    assert plan.cost_ns == 8 + 4000 + 8


def test_it_is_deterministic() -> None:
    for seed in range(20):
        plans = [search(random_problem(Random(seed), 9)) for _ in range(2)]
        assert all(a == b for a, b in pairwise(plans))
