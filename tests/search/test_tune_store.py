# SPDX-License-Identifier: Apache-2.0
"""What is kept of trials: by compiler, layer and choice."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import ConfigError
from loadstone.search import tune_store
from loadstone.search.checked_row import sealed_row
from loadstone.search.tune_layer import LayerTrial
from loadstone.search.tune_store import TrialStore, compiler_digest, default_store
from loadstone.vta.schedule.choices import LayerChoice

READ = LayerChoice.from_json


def test_a_trial_comes_back_for_its_layer_and_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "trials.sqlite"
    store, choice = TrialStore(path), LayerChoice((1, 2), "pixels", (0, 1))
    store.add("layer", choice, LayerTrial(100, 80, 30, 20))
    store.add("layer", LayerChoice(), None)
    known = {choice: LayerTrial(100, 80, 30, 20), LayerChoice(): None}
    assert TrialStore(path).trials("layer", READ) == known
    assert TrialStore(path).trials("other", READ) == {}
    monkeypatch.setattr(tune_store, "compiler_digest", lambda: "another")
    assert TrialStore(path).trials("layer", READ) == {}


def test_the_users_own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_store() == Path("/somewhere/loadstone/tune.sqlite")
    assert compiler_digest() == compiler_digest()
    assert len(compiler_digest()) == 16


def test_a_damaged_store_is_one_line_and_a_damaged_row_is_none(tmp_path: Path) -> None:
    whole, path = tmp_path / "t.sqlite", tmp_path / "d.sqlite"
    store = TrialStore(whole)
    kept = {LayerChoice((k, 1), "pixels", (0, 1)): LayerTrial(k, 2, 3, 4) for k in range(40)}
    for choice, trial in kept.items():
        store.add("layer", choice, trial)
    told, drawn = 0, np.random.default_rng(2)
    for _ in range(60):
        data = bytearray(whole.read_bytes())
        for at in drawn.integers(0, len(data), 30):
            data[at] = int(drawn.integers(256))
        path.write_bytes(data[: len(data) - int(drawn.choice([0, 0, 3000]))])
        said = ""
        try:
            assert TrialStore(path).trials("layer", READ).items() <= kept.items()
        except ConfigError as error:
            said = str(error)
        assert "\n" not in said
        told += bool(said)
    assert 0 < told < 60
    for odd in (b"{}", "text", None, 3, sealed_row("other", [1, 2, 3, 4])):
        shutil.copyfile(whole, path)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE trials SET trial = ?", (odd,))
        assert TrialStore(path).trials("layer", READ) == {}
