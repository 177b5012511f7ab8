# SPDX-License-Identifier: Apache-2.0
"""What is kept of trials: by compiler, layer and choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.search import tune_store
from loadstone.search.tune_layer import LayerTrial
from loadstone.search.tune_store import TrialStore, compiler_digest, default_store
from loadstone.vta.choices import LayerChoice


def test_a_trial_comes_back_for_its_layer_and_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "trials.sqlite"
    store, choice = TrialStore(path), LayerChoice((1, 2), "pixels", (0, 1))
    store.add("layer", choice, LayerTrial(100, 80, 30, 20))
    store.add("layer", LayerChoice(), None)
    known = {choice: LayerTrial(100, 80, 30, 20), LayerChoice(): None}
    assert TrialStore(path).trials("layer") == known
    assert TrialStore(path).trials("other") == {}
    monkeypatch.setattr(tune_store, "compiler_digest", lambda: "another")
    assert TrialStore(path).trials("layer") == {}


def test_the_users_own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_store() == Path("/somewhere/loadstone/tune.sqlite")
    assert compiler_digest() == compiler_digest()
    assert len(compiler_digest()) == 16
