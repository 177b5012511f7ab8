# SPDX-License-Identifier: Apache-2.0
"""The points of a space to try: all, some at random, or those that a search proposes.

In:   a Space; for the search, the score of each device of a generation.
Out:  batches of points; a batch is known before any of its points is tried.
Next: sweep.py gives the devices of a batch to the workers.

A search receives the scores of a generation only when all of them are known, in the order of its
requests. So the same seed proposes the same points, whatever the number and speed of workers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loadstone.errors import ConfigError
from loadstone.search.space import MAX_POINTS, Point, Space

__all__ = ["GENERATION", "OBJECTIVES", "SEARCHES", "Scores", "batches"]

SEARCHES = ("grid", "random", "pareto")
#: What `--search pareto` makes small, all at once: columns of the table of devices.
OBJECTIVES = ("us", "energy_uj", "area_mm2")
#: Devices that the search asks for at once.
GENERATION = 32
#: Stands for a device that cannot run the networks: every other one is better.
_WORST = 1e30

#: Of each point of a batch: its OBJECTIVES, None where it is infeasible.
Scores = Callable[[Sequence[Point]], Sequence[Sequence[float] | None]]


def batches(space: Space, search: str, points: int, seed: int, scores: Scores) -> None:
    """Asks `scores` for batches of points until there are no more. points: how many at most, for
    searches other than grid. Raises ConfigError."""
    if search == "grid":
        if space.points > MAX_POINTS:
            raise ConfigError(
                f"--search grid: the space has {space.points} points, more than {MAX_POINTS}: use "
                "--search random or pareto with --points N"
            )
        scores([space.at(number) for number in range(space.points)])
    elif search == "random":
        count = min(points, space.points)
        numbers = random.Random(seed).sample(range(space.points), count)
        scores([space.at(number) for number in numbers])
    else:
        _pareto(space, points, seed, scores)


def _pareto(space: Space, points: int, seed: int, scores: Scores) -> None:
    """NSGA-II: a generation is bred from the best so far, none of which another beats in all
    objectives."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.NSGAIISampler(population_size=GENERATION, seed=seed)
    study = optuna.create_study(directions=["minimize"] * len(OBJECTIVES), sampler=sampler)
    for count in _generations(points):
        trials = [study.ask() for _ in range(count)]
        asked = [_suggested(trial, space) for trial in trials]
        for trial, values in zip(trials, scores(asked), strict=True):
            study.tell(trial, [_WORST] * len(OBJECTIVES) if values is None else list(values))


def _generations(points: int) -> Iterator[int]:
    while points > 0:
        yield min(points, GENERATION)
        points -= GENERATION


def _suggested(trial: Any, space: Space) -> Point:
    """Values that are numbers have an order, which the search may use; others have none."""
    point = []
    for axis in space.axes:
        count = len(axis.values)
        if all(isinstance(value, int | float) for value in axis.values):
            point.append(int(trial.suggest_int(axis.name, 0, count - 1)))
        else:
            point.append(int(trial.suggest_categorical(axis.name, list(range(count)))))
    return tuple(point)
