# SPDX-License-Identifier: Apache-2.0
"""Tuning a network: never slower, the same integers, the same file for the same seed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from loadstone.backend.tuned_file import Tuned, read_tuned, write_tuned
from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.search.tune import TuneOptions, tune
from loadstone.search.tune_layer import LayerTrial, LayerUnit, try_layer
from loadstone.search.tune_network import SimulatedNetwork
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from tests.compiled import golden
from tests.repeat import more
from tests.search.small_network import SIZE, small_network

pytest.importorskip("optuna", reason="Optuna is not installed (the extra `search`)")
DEVICE = "vtaq-1x16x16"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "small.onnx"
    path.write_bytes(small_network())
    return path


@pytest.fixture(scope="module")
def store(model: Path) -> Path:
    return model.with_name("trials.sqlite")


@pytest.fixture(scope="module")
def tuned(model: Path, store: Path) -> Tuned:
    """Found once: later searches of the same trials read the store."""
    return tune(SimulatedNetwork(model, DEVICE), TuneOptions(trials=4, store=store))


def test_it_is_faster_and_the_integers_are_the_same(model: Path, tuned: Tuned) -> None:
    path = model.with_name("small.json")
    write_tuned(path, tuned)
    assert read_tuned(path).choices == tuned.choices
    default, found = compile(model, DEVICE), compile(model, DEVICE, tuned=path)
    config = load_config(DEVICE)
    assert sum(program_cycles(default.artifact, config)) == tuned.default_cycles
    assert sum(program_cycles(found.artifact, config)) == tuned.cycles < tuned.default_cycles
    x = np.random.default_rng(1).integers(-128, 128, (2, 1, 16, SIZE, SIZE)).astype(np.int8)
    assert np.array_equal(default.run(x)[0], found.run(x)[0])


def test_rows_have_bounds_and_sum_to_the_network(tuned: Tuned) -> None:
    assert [row.kind for row in tuned.layers] == ["conv2d", "conv2d", "add"]
    assert sum(row.cycles for row in tuned.layers) == tuned.cycles
    assert sum(row.default_cycles for row in tuned.layers) == tuned.default_cycles
    convolution = tuned.layers[0]
    # 9 steps a tile of output less some of those that padding leaves out, and one of RQ.
    assert convolution.bound_cycles is not None
    least = (3 * SIZE - 2) ** 2 + SIZE * SIZE
    assert least <= convolution.bound_cycles < SIZE * SIZE * 10
    assert convolution.cycles >= convolution.bound_cycles


@more
def test_the_same_seed_finds_the_same_without_the_store(
    model: Path, tuned: Tuned, tmp_path: Path
) -> None:
    options = TuneOptions(trials=4, store=tmp_path / "other.sqlite")
    assert tune(SimulatedNetwork(model, DEVICE), options) == tuned


@more
def test_the_same_on_two_workers(model: Path, tuned: Tuned, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (the extra `search`)")
    options = TuneOptions(trials=4, workers=2, store=tmp_path / "other.sqlite")
    assert tune(SimulatedNetwork(model, DEVICE), options) == tuned


_KILLED = """
import os, signal, sys
from loadstone.search import tune_store
from loadstone.search.tune import TuneOptions, tune
from loadstone.search.tune_layer import LayerTrial, LayerUnit, try_layer
from loadstone.search.tune_network import SimulatedNetwork
from pathlib import Path

add, count = tune_store.TrialStore.add, [0]
def killed(*given):
    add(*given)
    count[0] += 1
    if count[0] == 6:
        os.kill(os.getpid(), signal.SIGKILL)
tune_store.TrialStore.add = killed
tune(SimulatedNetwork(sys.argv[1], sys.argv[2]), TuneOptions(trials=4, store=Path(sys.argv[3])))
"""


def test_what_was_killed_goes_on(
    model: Path, tuned: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials that were known before the kill are not simulated again."""
    path = tmp_path / "killed.sqlite"
    done = subprocess.run([sys.executable, "-c", _KILLED, model, DEVICE, path], check=False)
    assert done.returncode == -signal.SIGKILL
    with closing(sqlite3.connect(path)) as database:
        ((kept,),) = database.execute("SELECT COUNT(*) FROM trials").fetchall()
    assert kept == 6
    tried: list[int] = []

    def counted(unit: LayerUnit) -> list[LayerTrial | None]:
        tried.append(len(unit.choices))
        return try_layer(unit)

    monkeypatch.setattr("loadstone.search.tune_network.try_layer", counted)
    assert tune(SimulatedNetwork(model, DEVICE), TuneOptions(trials=4, store=path)) == tuned
    assert sum(tried) == 3 * 4 - 6


def test_when_time_is_over_the_compilers_own_is_left(model: Path, tmp_path: Path) -> None:
    options = TuneOptions(seconds=1e-9, store=tmp_path / "none.sqlite")
    found = tune(SimulatedNetwork(model, DEVICE), options)
    assert found.cycles == found.default_cycles
    assert not found.choices


def test_what_cannot_be_tuned_is_said(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ConfigError, match=r"--trials 0 is not in \[1, 1000000\]"):
        TuneOptions(trials=0)
    with pytest.raises(ConfigError, match=r"--seconds -1.0 is not more than 0"):
        TuneOptions(seconds=-1.0)
    with pytest.raises(ConfigError, match="--seed -1 is not in"):
        TuneOptions(seed=-1)
    path = tmp_path / "text.sqlite"
    path.write_text("this is no database, whatever its name says " * 20)
    with pytest.raises(ConfigError, match=r"text.sqlite: no file of trials"):
        tune(SimulatedNetwork(model, DEVICE), TuneOptions(store=path))


@more
def test_a_tuned_network_gives_every_element_of_the_golden(shared: Path, tmp_path: Path) -> None:
    file = "mlpt_kws_int8.tflite"
    path = tmp_path / "kws.json"
    network = SimulatedNetwork(shared / "models" / file, "vta-pynq")
    found = tune(network, TuneOptions(trials=3, store=tmp_path / "kws.sqlite"))
    assert found.cycles < found.default_cycles
    write_tuned(path, found)
    compiled = compile(shared / "models" / file, "vta-pynq", tuned=path)
    assert sum(program_cycles(compiled.artifact, load_config("vta-pynq"))) == found.cycles
    inputs, wanted = golden(shared, file, 4)
    for got, want in zip(compiled.run(*inputs), wanted, strict=True):
        assert np.array_equal(got.reshape(want.shape), want)
