# SPDX-License-Identifier: Apache-2.0
"""The smallest network that a back end computes wrongly.

In:   a target, and the Verdicts of check.py.
Out:  Smallest: the network, in words and as integers, and what is wrong with it.
Next: commands/conform.py prints it; onnx_case.py makes a file of it.

Hypothesis draws networks of the first kind that is wrong, in the order of CASES, single operators
before networks, until one is wrong in the same way, and makes that one smaller. As ONNX rounds, if
that is wrong too: then it can be written as a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from tempfile import TemporaryDirectory

import numpy as np

from loadstone import graph as g
from loadstone.backend.target import Target
from loadstone.conformance.check import CASES, Verdict, judged, requested
from loadstone.conformance.drawn import networks
from loadstone.conformance.schemes import in_scheme, rounded_as_onnx

__all__ = ["Smallest", "smallest"]

#: Networks that one search compiles and runs, at most.
TRIALS = 400


@dataclass(frozen=True)
class Smallest:
    """kind: of check.CASES. why: what is wrong with it, as a Verdict says it."""

    kind: str
    graph: g.Graph
    why: str

    @property
    def words(self) -> str:
        """The operators, in one line."""
        return "; ".join(self.graph.describe().splitlines())


def smallest(target: Target, verdicts: Sequence[Verdict]) -> Smallest | None:
    """None where nothing is wrong but what no network shows (a pattern that is hardly taken, an
    instruction's reach), or where no network that Hypothesis draws is. Raises ModuleNotFoundError
    without Hypothesis. Deterministic."""
    target = requested(target)
    wrong = {verdict.kind: verdict for verdict in reversed(verdicts) if verdict.outcome == "wrong"}
    for kind in CASES:
        if kind in wrong:
            for form in (rounded_as_onnx, _as_drawn):
                found = _least(target, kind, _sort(wrong[kind].why), form)
                if found is not None:
                    return found
    return None


def _as_drawn(graph: g.Graph) -> g.Graph:
    return graph


def _sort(why: str) -> str:
    """Of mistakes that are alike: an exception's class, or other numbers."""
    first = why.partition(":")[0]
    return first if first.isidentifier() else "numbers"


def _least(
    target: Target, kind: str, sort: str, form: Callable[[g.Graph], g.Graph]
) -> Smallest | None:
    """Of one kind, wrong in one way, in one form."""
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis.configuration import set_hypothesis_home_dir
    from hypothesis.errors import NoSuchExample

    verdicts: dict[tuple[str | bytes, ...], Verdict] = {}  # Hypothesis asks again at the end

    def formed(drawn: tuple[g.Graph, int]) -> g.Graph:
        return form(in_scheme(drawn[0], target.backends[0], drawn[1]))

    def is_wrong(drawn: tuple[g.Graph, int]) -> bool:
        graph = formed(drawn)
        key = _contents(graph)
        if key not in verdicts:
            if len(verdicts) == TRIALS:
                return False
            verdicts[key] = judged(graph, kind, target, {})
        verdict = verdicts[key]
        return verdict.outcome == "wrong" and _sort(verdict.why) == sort

    quietly = settings(
        max_examples=TRIALS,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=tuple(HealthCheck),
    )
    with TemporaryDirectory() as folder:
        set_hypothesis_home_dir(folder)  # else it leaves a folder where the command runs
        try:
            graph = formed(find(networks(CASES, kind), is_wrong, settings=quietly))
        except NoSuchExample:
            return None
        finally:
            set_hypothesis_home_dir(None)
    return Smallest(kind, graph, verdicts[_contents(graph)].why)


def _contents(graph: g.Graph) -> tuple[str | bytes, ...]:
    """All that makes it this network: words, and the bytes of its arrays."""
    values = [getattr(o, entry.name) for o in graph.operators for entry in fields(o)]
    arrays = [*values, *graph.constants.values()]
    found = (array.tobytes() for array in arrays if isinstance(array, np.ndarray))
    return graph.describe(), *found
