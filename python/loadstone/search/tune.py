# SPDX-License-Identifier: Apache-2.0
"""Searches for schedules that are faster than the compiler's own, by exact cycles.

In:   a model, a target, the length of the search.
Out:  a Tuned (backend/tuned_file.py), the same for the same seed and number of trials, on any
      number of workers.
Next: `loadstone tune` writes it and prints a row for each layer.

    1. columns    which columns are folded into channels: likely ones, each in the whole network
    2. layers     each layer alone, many choices (tune_study.py proposes, workers try them)
    3. network    the best few of each layer in the whole network, every second layer at once
    4. program    prefetch and places in the scratchpads

A step keeps only choices that make the whole network faster, so that the result is never slower
than the compiler's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path

from loadstone.backend.tuned_file import Tuned, TunedLayer
from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.search.tune_layer import LayerTrial
from loadstone.search.tune_network import NetworkLayer, NetworkTrial, SimulatedNetwork
from loadstone.search.tune_store import TrialStore, default_store
from loadstone.search.tune_study import LayerStudy, ScheduleChoice, needs_optuna
from loadstone.search.workers import Pool, open_pool
from loadstone.vta.region.fold_pixels import column_choices
from loadstone.vta.schedule.choices import PLACES, RegionChoice, region_key

__all__ = ["TuneOptions", "tune"]

#: Choices of a layer that Optuna may ask for.
_SPACE = 96
#: Of each layer, how many are tried in the whole network.
_FINALISTS = 3
#: Other foldings of columns that are tried.
_COLUMNS = 12
#: Of --seconds, when no more layers are tried alone: the whole network decides what it is good for.
_LAYERS_SHARE, _COLUMNS_SHARE = 0.6, 0.15
_PREFETCH = (0, 1, 2, 4)


#: Of one layer; the search thinks of them in batches, and a number without end would never end.
MAX_TRIALS = 1_000_000


@dataclass(frozen=True)
class TuneOptions:
    """trials: of each layer. seconds: after which no step is begun; None: no limit, and the same
    result each time. workers: as of open_pool. store: an SQLite file; None: the user's own. say:
    told what is going on."""

    trials: int = 32
    seconds: float | None = None
    workers: int | str | Executor = 1
    seed: int = 0
    store: Path | None = None
    say: Callable[[str], None] = field(default=lambda _: None)

    def __post_init__(self) -> None:
        if not 1 <= self.trials <= MAX_TRIALS:
            raise ConfigError(f"--trials {self.trials} is not in [1, {MAX_TRIALS}]")
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds} is not more than 0")
        if not 0 <= self.seed < 1 << 32:
            raise ConfigError(f"--seed {self.seed} is not in [0, {(1 << 32) - 1}]")


def tune(network: SimulatedNetwork, options: TuneOptions) -> Tuned:
    """Raises ConfigError for options, or a store, that cannot be used."""
    needs_optuna()
    return _Search(network, options).run()


class _Search:
    """records: what is kept so far; trial: the whole network with them."""

    def __init__(self, network: SimulatedNetwork, options: TuneOptions) -> None:
        self.network, self.options = network, options
        self.store = TrialStore(options.store or default_store())
        self.trial = network.default
        self.records: dict[str, JsonObject] = {}
        self.started = time.monotonic()
        self.studies: dict[str, LayerStudy] = {}

    def run(self) -> Tuned:
        steps = (self._columns, self._layers, self._network, self._program)
        for step in steps:
            if not self._late():
                step()
                self.options.say(f"{step.__name__[1:]}: {self.trial.cycles:,} cycles")
        return self._tuned()

    def _late(self, share: float = 1.0) -> bool:
        """Whether this share of the time is over."""
        limit = self.options.seconds
        return limit is not None and time.monotonic() - self.started > limit * share

    def _faster(self, records: Mapping[str, JsonObject]) -> bool:
        """Keeps these records if the whole network is faster with them."""
        trial = self.network.trial(records)
        if trial is None or trial.cycles >= self.trial.cycles:
            return False
        self.trial, self.records = trial, dict(records)
        return True

    # --- columns, program -------------------------------------------------------------------------
    def _columns(self) -> None:
        for region in self.network.default.regions:
            if region.config.is_float:
                continue
            key = region_key(region.operators, region.config)
            others = column_choices(
                region.operators, region.seen, region.host, region.config, _COLUMNS + 1
            )[1:]
            for columns in others:
                if not self._late(_COLUMNS_SHARE):
                    self._faster({**self.records, key: RegionChoice(columns).to_json()})

    def _program(self) -> None:
        tries = [RegionChoice(prefetch=quarters) for quarters in _PREFETCH]
        tries += [RegionChoice(place=place) for place in PLACES[1:]]
        for region in self.trial.regions:
            key = region_key(tuple(region.operators), region.config)  # before columns are folded
            for choice in tries:
                if not self._late():
                    record = {**self.records.get(key, {}), **choice.to_json()}
                    self._faster({**self.records, key: record})

    # --- layers -----------------------------------------------------------------------------------
    def _layers(self) -> None:
        """A study for each, a batch of all of them at a time."""
        layers = {layer.trials_key: layer for layer in self.network.layers(self.trial)}
        for key, layer in layers.items():
            choices = self.network.choices(layer, _SPACE)
            seed = (int(layer.key, 16) + self.options.seed) % (1 << 32)
            self.studies[key] = LayerStudy(choices, seed, self.options.trials)
        known = {key: self.store.trials(key, layer.read) for key, layer in layers.items()}
        with open_pool(self.options.workers, "layers") as pool:
            while not self._late(_LAYERS_SHARE):
                asked = {key: study.ask() for key, study in self.studies.items()}
                asked = {key: batch for key, batch in asked.items() if batch}
                if not asked:
                    return
                self._try(pool, layers, asked, known)
                for key in asked:
                    self.studies[key].tell(known[key])

    def _try(
        self,
        pool: Pool,
        layers: Mapping[str, NetworkLayer],
        asked: Mapping[str, Sequence[ScheduleChoice]],
        known: dict[str, dict[ScheduleChoice, LayerTrial | None]],
    ) -> None:
        """What is asked and not known, on the workers; each result is kept at once."""
        open_ = [
            (key, tuple(choice for choice in batch if choice not in known[key]))
            for key, batch in asked.items()
        ]
        open_ = [(key, batch) for key, batch in open_ if batch]

        def keep(index: int, trials: list[LayerTrial | None]) -> None:
            key, batch = open_[index]
            for choice, trial in zip(batch, trials, strict=True):
                known[key][choice] = trial
                self.store.add(key, choice, trial)

        self.network.try_all(pool, [(layers[key], batch) for key, batch in open_], keep)

    # --- network ----------------------------------------------------------------------------------
    def _network(self) -> None:
        """Every second layer gets its next choice at once. What a layer and the one behind it gain
        by that is seen in one run; those that gain are then tried without the others."""
        layers = self.network.layers(self.trial)
        self._everything(layers)
        for place in range(_FINALISTS):
            for colour in (0, 1):
                if not self._late():
                    self._second(layers, place, colour)

    def _everything(self, layers: Sequence[NetworkLayer]) -> None:
        """The best of every layer: a beginning, if it is faster."""
        records = dict(self.records)
        for layer in layers:
            for choice in self.studies[layer.trials_key].best(1):
                records[layer.key] = choice.to_json()
        self._faster(records)

    def _second(self, layers: Sequence[NetworkLayer], place: int, colour: int) -> None:
        numbers: dict[str, int] = {}
        for layer in layers:
            numbers.setdefault(layer.key, len(numbers))
        changes: dict[str, JsonObject] = {}
        for layer in layers:
            # In the first place the compiler's own, where it was given up for something else.
            best = self.studies[layer.trials_key].best(_FINALISTS)
            ranked: list[JsonObject] = [{}, *(choice.to_json() for choice in best)]
            if numbers[layer.key] % 2 == colour and place < len(ranked):
                record = ranked[place]
                if record != self.records.get(layer.key, {}):
                    changes[layer.key] = record
        trial = self.network.trial(_merged(self.records, changes)) if changes else None
        if trial is None:
            return
        gains = self._gains(layers, changes, trial)
        better = {key: record for key, record in changes.items() if gains[key] > 0}
        while better and not self._faster(_merged(self.records, better)):
            least = sorted(better, key=lambda key: gains[key])
            better = {key: better[key] for key in least[len(least) // 2 + 1 :]}

    def _gains(
        self, layers: Sequence[NetworkLayer], changes: Mapping[str, JsonObject], trial: NetworkTrial
    ) -> dict[str, int]:
        """By key: fewer cycles, of its layers and of those behind them."""
        gains = dict.fromkeys(changes, 0)
        for layer, behind in zip(layers, [*layers[1:], None], strict=True):
            if layer.key in gains:
                near = [layer.op.name, *([behind.op.name] if behind else [])]
                gains[layer.key] += sum(
                    self.trial.layers.get(name, 0) - trial.layers.get(name, 0) for name in near
                )
        return gains

    # --- the end ----------------------------------------------------------------------------------
    def _tuned(self) -> Tuned:
        records = {key: record for key, record in self.records.items() if record}
        default = self.network.default
        rows = []
        for layer in self.network.layers(self.trial):
            study = self.studies.get(layer.trials_key)
            name = layer.op.name
            rows.append(
                TunedLayer(
                    name,
                    layer.op.kind,
                    default.layers.get(name, 0),
                    self.trial.layers.get(name, 0),
                    study.bound if study else None,
                    records.get(layer.key, {}),
                )
            )
        tuned = Tuned(
            self.network.name,
            self.network.device_name,
            self.network.digest,
            default.cycles,
            self.trial.cycles,
            records,
            tuple(rows),
        )
        return replace(tuned, seed=self.options.seed)


def _merged(
    records: Mapping[str, JsonObject], changes: Mapping[str, JsonObject]
) -> dict[str, JsonObject]:
    """An empty record is none."""
    return {key: record for key, record in {**records, **changes}.items() if record}
