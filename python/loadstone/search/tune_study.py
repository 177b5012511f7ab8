# SPDX-License-Identifier: Apache-2.0
"""Which choices of one layer to try next: Optuna proposes, and receives the simulator's cycles.

In:   a layer's choices, most promising first; a seed; what is known of them.
Out:  batches of choices; the best ones, once some are tried.
Next: tune.py has the batches tried.

Batches have one size, whoever tries them and however many they are, so that the same seed asks for
the same choices. The first batch is the most promising choices; then comes Optuna's tree of Parzen
estimators on a choice's place in that order, on a logarithmic scale, which proposes choices near
good ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from loadstone.files import JsonObject
from loadstone.search.tune_layer import LayerTrial

__all__ = ["BATCH", "LayerStudy", "ScheduleChoice", "needs_optuna"]

#: Choices that are asked for together.
BATCH = 8
_RANK = "place"
#: How often Optuna may ask for what it has been told already.
_AGAIN = 16


def needs_optuna() -> Any:
    """The module, silent."""
    import optuna  # of the extra `search`

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class ScheduleChoice(Protocol):
    """What may be chosen of a layer's schedule; equal ones are one."""

    def __hash__(self) -> int:
        """It is looked up."""

    def to_json(self) -> JsonObject:
        """Its record; empty for the back end's own choice."""


class LayerStudy:
    """The search of one layer. trials: what is known, from runs before as well."""

    def __init__(self, choices: Sequence[ScheduleChoice], seed: int, most: int) -> None:
        """most: trials in all, the first choice, which is the compiler's own, among them."""
        optuna = needs_optuna()
        self.choices = choices
        self.most = min(most, len(choices))
        self.trials: dict[ScheduleChoice, LayerTrial | None] = {}
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=BATCH, constant_liar=True)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._distributions = {
            _RANK: optuna.distributions.IntDistribution(1, len(choices), log=True)
        }
        self._states = optuna.trial.TrialState
        self._asked: dict[ScheduleChoice, Any] = {}

    def ask(self) -> list[ScheduleChoice]:
        """The next batch; empty at the end."""
        count = min(BATCH, self.most - len(self.trials))
        batch: list[ScheduleChoice] = []
        self._asked = {}
        for place in range(len(self.trials), len(self.trials) + count):
            choice, trial = self._fresh(place)
            batch.append(choice)
            self._asked[choice] = trial
        return batch

    def _fresh(self, place: int) -> tuple[ScheduleChoice, Any]:
        """A choice that was not tried yet, and Optuna's trial of it."""
        for _ in range(_AGAIN):
            if place < BATCH:
                self._study.enqueue_trial({_RANK: place + 1})
            trial = self._study.ask(self._distributions)
            choice = self.choices[trial.params[_RANK] - 1]
            if choice not in self.trials and choice not in self._asked:
                return choice, trial
            self._tell(trial, self.trials.get(choice))
        choice = next(c for c in self.choices if c not in self.trials and c not in self._asked)
        self._study.enqueue_trial({_RANK: self.choices.index(choice) + 1})
        return choice, self._study.ask(self._distributions)

    def tell(self, found: Mapping[ScheduleChoice, LayerTrial | None]) -> None:
        """What came of the batch."""
        for choice, trial in self._asked.items():
            self.trials[choice] = found[choice]
            self._tell(trial, found[choice])
        self._asked = {}

    def _tell(self, trial: Any, found: LayerTrial | None) -> None:
        if found is None:
            self._study.tell(trial, state=self._states.FAIL)
        else:
            self._study.tell(trial, found.cycles)

    def best(self, count: int) -> list[ScheduleChoice]:
        """The fastest, ties in the order of the choices; the compiler's own is no faster than the
        last of them."""
        own = self.trials.get(self.choices[0])
        limit = own.cycles if own is not None else 1 << 62
        known = [
            (trial.cycles, place, choice)
            for place, choice in enumerate(self.choices)
            if (trial := self.trials.get(choice)) is not None and place
        ]
        known.sort(key=lambda entry: entry[:2])
        # A little slower alone may be faster beside its neighbours.
        return [choice for cycles, _, choice in known if cycles <= limit * _NEAR][:count]

    @property
    def bound(self) -> int | None:
        """No order of a layer's steps takes less: of the choice with the fewest."""
        return min((t.bound for t in self.trials.values() if t is not None), default=None)


_NEAR = 1.02
