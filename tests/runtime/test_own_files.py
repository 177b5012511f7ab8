# SPDX-License-Identifier: Apache-2.0
"""runtime/own_files.py: what this user compiled here runs; nothing else does for want of a word."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import loadstone
from loadstone.analysis.compiled import Compiled
from loadstone.artifact.format import Artifact, HostStep
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.errors import ArtifactError
from loadstone.runtime.own_files import is_own, remember
from tests.onnx_builder import Graph, run

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 1, 4)


@cache
def with_code() -> Compiled:
    """A network of one step that is a program in C."""
    graph = Graph()
    y = graph.node("Sin", graph.input((1, 4), np.float32))
    return compile(onnx.load_from_string(graph.save([(y, np.float32)])), "vtaq-1x16x16")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/loadstone"


def refused(path: Path) -> bool:
    try:
        loadstone.load(path).run(X)
    except ArtifactError as error:
        return "was not compiled here by you, and 1 of its steps" in str(error)
    return False


def test_what_was_compiled_here_runs(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "sin.lds"
    with_code().save(path)
    np.testing.assert_allclose(loadstone.load(path).run(X)[0], np.sin(X), rtol=1e-5)
    np.savez(tmp_path / "x.npz", in0=X)
    inputs = ["--inputs", f"{tmp_path}/x.npz"]
    assert main(["run", str(path), *inputs]) == 0
    assert main(["run", str(path), *inputs, "--workers", "1"]) == 0
    assert main(["profile", str(path)]) == 0
    assert main(["compare", str(path), *inputs, "--against", "reference"]) == 0
    assert oct(os.stat(state).st_mode & 0o777) == "0o700"
    for name in ("key", "known"):
        assert oct(os.stat(state / name).st_mode & 0o777) == "0o600"
    with_code().save(path)
    assert len((state / "known").read_text().splitlines()) == 1, "once is enough"
    assert len(list(state.iterdir())) == 2


def test_what_comes_from_elsewhere_is_asked_for(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sin.lds"
    with_code().artifact.save(path)
    assert refused(path)
    np.savez(tmp_path / "x.npz", in0=X)
    words = ["run", str(path), "--inputs", f"{tmp_path}/x.npz"]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "loadstone: model 'model' was not compiled here by you, and 1 of its steps (the first: "
        "'n0') would run a program in C from the file as you: say --trust (in Python: trust=True) "
        "if you trust whoever made the file\n"
    )
    assert main([*words, "--trust"]) == 0
    assert not state.exists(), "a word for one run is not remembered"


def test_operators_of_the_runtime_are_no_code(state: Path, tmp_path: Path) -> None:
    """A file from elsewhere, whose layers stay float, runs without a word, and without a compiler:
    a gate, a layer norm as its exporters write it, a softmax."""
    graph = Graph()
    x = graph.input((1, 4), np.float32)
    gate = graph.node("Mul", x, graph.node("Sigmoid", x))
    around = graph.node("Sub", gate, graph.node("ReduceMean", gate, axes=[-1], keepdims=1))
    power = graph.node("Mul", around, around)
    spread = graph.node("Sqrt", graph.node("ReduceMean", power, axes=[-1], keepdims=1))
    y = graph.node("Softmax", graph.node("Tanh", graph.node("Div", around, spread)), axis=-1)
    file = graph.save([(y, np.float32)])
    compile(onnx.load_from_string(file), "vtaq-1x16x16").artifact.save(tmp_path / "theirs.lds")
    np.savez(tmp_path / "x.npz", in0=X)
    wanted = np.stack([np.asarray(run(file, [x])[0]) for x in X])
    np.testing.assert_allclose(loadstone.load(tmp_path / "theirs.lds").run(X)[0], wanted, rtol=1e-5)
    assert main(["run", f"{tmp_path}/theirs.lds", "--inputs", f"{tmp_path}/x.npz"]) == 0
    assert not state.exists()


def test_a_file_that_was_changed_is_another(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "sin.lds"
    with_code().save(path)
    artifact = Artifact.load(path)
    (step,) = (s for s in artifact.steps if isinstance(s, HostStep) and s.function)
    spoiled = replace(step, attributes=step.attributes.replace("sin", "cos", 1))
    steps = tuple(spoiled if s is step else s for s in artifact.steps)
    replace(artifact, steps=steps).save(path)
    assert refused(path)
    assert not is_own(Artifact.load(path))


@pytest.mark.parametrize("name", ["key", "known"])
def test_a_store_that_others_could_have_written_counts_for_nothing(
    name: str, state: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sin.lds"
    with_code().save(path)
    assert not refused(path)
    os.chmod(state / name, 0o660)
    assert refused(path)
    os.chmod(state / name, 0o600)
    os.chmod(state, 0o777)
    assert refused(path)
    os.chmod(state, 0o700)
    assert not refused(path)
    content = bytearray((state / name).read_bytes())
    content[3] ^= 1
    (state / name).write_bytes(content)
    assert refused(path)
    content[3] ^= 1
    (state / name).write_bytes(content)
    assert not refused(path)
    shutil.move(state / name, tmp_path / "moved")
    (state / name).symlink_to(tmp_path / "moved")
    assert refused(path)
    (state / name).unlink()
    assert refused(path)


def test_another_users_store_is_not_read(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sin.lds"
    with_code().save(path)
    monkeypatch.setattr(os, "getuid", lambda: os.stat(state).st_uid + 1)
    assert refused(path)


def test_where_nothing_can_be_kept_compiling_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    with_code().save(tmp_path / "sin.lds")
    assert refused(tmp_path / "sin.lds")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the home folder is taken
    monkeypatch.setenv("HOME", str(tmp_path))
    with_code().save(tmp_path / "sin.lds")
    assert (tmp_path / ".local/state/loadstone/known").is_file()
    assert not refused(tmp_path / "sin.lds")


def test_the_store_stays_small(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadstone.runtime.own_files._MAX_LINES", 4)
    artifacts = [replace(with_code().artifact, name=f"m{number}") for number in range(7)]
    for artifact in artifacts:
        remember(artifact)
    known = [is_own(artifact) for artifact in artifacts]
    assert known[-1]
    assert sum(known) == len((state / "known").read_text().splitlines()) <= 4
