# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/serve.c: processes that share a device through a server; who dies, who talks
nonsense (more of it: test_serve_messages.py) and whose network fails is noticed by nobody else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.conftest import ROOT
from tests.hosts.easy import Easy, EasyError
from tests.hosts.serving import MODEL, Serving, die, in_parts, nonsense, ran, serving
from tests.repeat import more, times
from tests.sample_model import copy_model, endless_model, entries_model
from tests.simd_client import process


@contextlib.contextmanager
def client(name: str, path: Path, runs: int, seed: int) -> Iterator[subprocess.Popen[str]]:
    """A process whose network is open, and which begins with the next line that it gets."""
    words = [sys.executable, "-m", "tests.hosts.serve_client", name, path, runs, seed]
    with subprocess.Popen(
        list(map(str, words)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def begin(*children: subprocess.Popen[str]) -> None:
    for child in children:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "open\n", child.stderr and child.stderr.read()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()


def found(child: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (0, "")
    return dict(json.loads(out))


def alone(artifact: Artifact, runs: int, seed: int, failed: dict[str, str]) -> str:
    """A client's outputs of the runs that did not fail, with nobody else on the device."""
    rng, sha = np.random.default_rng(seed), hashlib.sha256()
    with device.open("sim", timing=False) as opened, opened.load(artifact) as session:
        for run in range(runs):
            x = rng.integers(-128, 128, session.inputs[0].shape).astype(np.int8)
            session.inputs[0][...] = x
            session.execute()
            if str(run) not in failed:
                sha.update(session.outputs[0].tobytes())
    return sha.hexdigest()


def test_one_dies_one_talks_nonsense_and_the_others_are_exact(tmp_path: Path) -> None:
    runs = times(200, 20_000)
    deaths = times(20, 1000)
    models = [MODEL, in_parts(5), in_parts(40)]
    for n, model in enumerate(models):
        model.save(tmp_path / f"{n}.lds")
    with serving(tmp_path) as served, contextlib.ExitStack() as ends:
        children = [
            ends.enter_context(client(served.name(priority=n), tmp_path / f"{n}.lds", count, n + 1))
            for n, count in enumerate((runs, runs, 10**9))
        ]
        begin(*children)
        before = served.files()
        nonsense(served.path, times(60, 3000))
        die(served.path, models[2], deaths)
        children[2].kill()
        children[2].wait()
        for n in (0, 1):
            wanted = alone(models[n], runs, n + 1, {})
            assert found(children[n]) == {"failed": {}, "digest": wanted}
        assert served.settles(before - 3)  # connections of three clients are closed
        counts = served.end()
    assert counts["networks"] == 3 + deaths
    assert counts["runs"] >= 2 * runs
    assert counts["failures"] <= 1 + deaths  # the runs of those that died
    assert counts["dropped"] + counts["refused"] >= times(60, 3000) // 2


@pytest.fixture(scope="module")
def serving_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("serve")) as served:
        yield served
        served.end()


# --- what the device refuses, and what fails ------------------------------------------------------
def test_networks_that_cannot_share_it_are_refused(serving_all: Serving) -> None:
    with Easy(MODEL, serving_all.name()):
        with pytest.raises(EasyError, match="was compiled for another device"):
            Easy(copy_model(load_config("vtaq-4x16x16")), serving_all.name())
        program = MODEL.programs[0]
        code = bytearray(program.instructions)
        code[16:32] = bytes([code[16] & 0x7F | 1 << 7]) + bytes(15)  # a LOAD of nothing
        steps = [replace(s, instructions=bytes(code)) if s is program else s for s in MODEL.steps]
        with pytest.raises(EasyError, match="cannot share a device: .*another program has left"):
            Easy(replace(MODEL, steps=tuple(steps)), serving_all.name())
        code[0] |= 7  # an opcode that is none
        steps = [replace(s, instructions=bytes(code)) if s is program else s for s in MODEL.steps]
        with pytest.raises(EasyError, match="an instruction that the device does not know"):
            Easy(replace(MODEL, steps=tuple(steps)), serving_all.name())


@pytest.mark.parametrize("kind", ["bus-error", pytest.param("hang", marks=more)])
def test_faults_are_of_whom_they_happen_to(tmp_path: Path, kind: str) -> None:
    """The device of another process, whose jobs fail as ordered."""
    runs = 60 if kind == "hang" else times(60, 2000)
    faults = 3 if kind == "hang" else times(20, 1000)
    MODEL.save(tmp_path / "m.lds")
    ordered = [word for n in range(faults) for word in ("--fault", f"{kind}@{3 * n + 1}:1")]
    (tmp_path / "simd").mkdir()
    with process(tmp_path / "simd", *ordered) as (_, path):
        name = f"simd:{path};hang_ms=100" if kind == "hang" else f"simd:{path}"
        with serving(tmp_path, name) as served, contextlib.ExitStack() as ends:
            children = [
                ends.enter_context(client(served.name(priority=n), tmp_path / "m.lds", runs, n + 1))
                for n in range(2)
            ]
            begin(*children)
            answers = [found(child) for child in children]
            counts = served.end()
    assert counts["failures"] == faults == sum(len(answer["failed"]) for answer in answers)
    for n, answer in enumerate(answers):
        lines = answer["failed"].values()
        assert all(line.startswith("model 'dense'") and "device" in line for line in lines)
        assert answer["digest"] == alone(MODEL, runs, n + 1, answer["failed"])


def test_a_server_that_ends_is_one_line_and_its_endless_run_ends_with_it(tmp_path: Path) -> None:
    with serving(tmp_path) as served, Easy(endless_model(), served.name()) as net:
        said: list[str] = []

        def endless() -> None:
            error = ffi.new("lds_easy_error *")
            lib().lds_easy_run(net.net, ffi.NULL, ffi.NULL, 1, error)
            said.append(ffi.string(error.text).decode())

        thread = threading.Thread(target=endless)
        thread.start()
        time.sleep(0.2)
        served.end()
        thread.join(timeout=20)
        assert said == [f"the server at {served.path} is gone"]
    with pytest.raises(EasyError, match=r"^no server answers at .*: start `loadstone serve"):
        Easy(MODEL, served.name())


# --- who goes on ----------------------------------------------------------------------------------
def test_the_higher_priority_goes_first(tmp_path: Path) -> None:
    """Both ask while the server is stopped."""
    with serving(tmp_path) as served:
        nets = [Easy(in_parts(50), served.name(priority=n)) for n in range(2)]
        one = MODEL.tensors[MODEL.inputs[0]]
        for _ in range(times(3, 100)):
            served.process.send_signal(signal.SIGSTOP)
            threads = [threading.Thread(target=ran, args=(net, one.shape)) for net in nets]
            for thread in threads:
                thread.start()
            time.sleep(0.05)
            served.process.send_signal(signal.SIGCONT)
            for thread in threads:
                thread.join()
            low, high = (lib().lds_easy_response_ns(net.net) for net in nets)
            assert 0 < high < low
        for net in nets:
            net.close()


def test_periods_are_kept_and_deadlines_counted(serving_all: Serving) -> None:
    shape = MODEL.tensors[MODEL.inputs[0]].shape
    with Easy(in_parts(30), serving_all.name(period_us=50_000, deadline_us=1)) as net:
        begin = time.monotonic()
        for n in range(4):
            ran(net, shape)
            assert lib().lds_easy_missed(net.net) == n + 1
        assert time.monotonic() - begin >= 0.15
    with Easy(MODEL, serving_all.name(deadline_us=60_000_000)) as net:
        ran(net, shape)
        assert lib().lds_easy_missed(net.net) == 0
        assert 0 < lib().lds_easy_response_ns(net.net) < 60 * 10**9


# --- the same calls -------------------------------------------------------------------------------
def test_entries_states_and_any_number_of_samples(serving_all: Serving) -> None:
    first, x = (np.arange(n, n + 16, dtype=np.int8).reshape(1, 16) for n in (0, 40))
    with Easy(entries_model(), serving_all.name()) as net:
        y = np.zeros((1, 16), np.int8)
        net.choose("keep")
        net.run([x], [])
        net.choose("give")
        net.run([], [y])
        assert np.array_equal(y, x)
        assert lib().lds_easy_reset(net.net, ffi.NULL) == 0
        net.run([], [y])
        assert np.array_equal(y, first)
    many = np.arange(-24, 24, dtype=np.int8).reshape(3, 16)
    with Easy(copy_model(), serving_all.name()) as net:
        y = np.zeros_like(many)
        net.run([many], [y])
        assert np.array_equal(y, many)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"priority": 1 << 32}, "option priority=4294967296 is not one of"),
        ({"hang_ms": 5}, "others are for `loadstone serve`"),
        ({"period_us": 10**18}, "of a day at most"),
    ],
)
def test_options_of_the_name(tmp_path: Path, options: dict[str, int], line: str) -> None:
    with pytest.raises(EasyError, match=line):
        Easy(MODEL, Serving(None, tmp_path).name(**options))  # type: ignore[arg-type]
