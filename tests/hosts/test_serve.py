# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/serve.c: processes that share a device through a server; who dies, who talks
nonsense and whose network fails is noticed by nobody else."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.library.native import ffi, lib, library_file
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests import objects
from tests.board.tools import need, run, work
from tests.c.build import SANITIZED, STRICT, includes
from tests.conftest import ROOT
from tests.hosts.easy import Easy, EasyError
from tests.repeat import more, times
from tests.sample_model import copy_model, dense_model, endless_model, entries_model
from tests.simd_client import process

CONFIG = load_config("vtaq-1x16x16")
MODEL = dense_model(CONFIG).artifact
OPEN, RUN, RESET = 16, 17, 18
ANSWER_BYTES = 16 + 3 * 8 + 512


def in_parts(parts: int) -> Artifact:
    """The program of the sample model again and again: blocks of equal length."""
    (program,) = MODEL.programs
    at = MODEL.steps.index(program)
    again = tuple(replace(program, name=f"part {n}") for n in range(parts))
    return replace(MODEL, steps=(*MODEL.steps[:at], *again, *MODEL.steps[at + 1 :]))


@dataclass
class Serving:
    """`loadstone serve`."""

    process: subprocess.Popen[str]
    path: Path

    def name(self, **options: int) -> str:
        return f"served:{self.path}" + "".join(f";{k}={v}" for k, v in options.items())

    def end(self) -> dict[str, int]:
        """What it counted."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=20)
        assert (self.process.returncode, err) == (143, "")
        assert not self.path.exists()
        return dict(json.loads(out))

    def files(self) -> int:
        """Descriptors that it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settles(self, most: int) -> bool:
        """Whether it soon has no more than that open."""
        end = time.monotonic() + 10
        while self.files() > most and time.monotonic() < end:
            time.sleep(0.01)
        return self.files() <= most


@contextlib.contextmanager
def serving(folder: Path, name: str = "sim") -> Iterator[Serving]:
    path = folder / "npu.sock"
    command = [sys.executable, "-m", "loadstone", "serve", name, str(path), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == f"{name} at {path}\n"
            yield Serving(child, path)
        finally:
            child.kill()


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


# --- nonsense -------------------------------------------------------------------------------------
def connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(20)
    made.connect(str(path))
    return made


def memory_file(data: bytes) -> int:
    fd = os.memfd_create("artifact", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    return fd


def opening(version: int = 1, priority: int = 0, period: int = 0, deadline: int = 0) -> bytes:
    return struct.pack("<4I2Q", OPEN, 7, version, priority, period, deadline)


def asked(path: Path, message: bytes, fds: list[int]) -> tuple[int, str] | None:
    """(status, line) of the answer; None: the connection ended."""
    with connected(path) as one:
        with contextlib.suppress(BrokenPipeError):
            socket.send_fds(one, [message], fds)
        return answered(one)


def answered(one: socket.socket) -> tuple[int, str] | None:
    try:
        data, fds, _, _ = socket.recv_fds(one, ANSWER_BYTES + 1, 4)
    except ConnectionError:
        return None
    for fd in fds:
        os.close(fd)
    if not data:
        return None
    assert len(data) == ANSWER_BYTES
    status = struct.unpack_from("<i", data, 8)[0]
    return status, data[40:].split(b"\0")[0].decode()


def nonsense(path: Path, count: int) -> None:
    """Messages at random, with descriptors of anything, and artifacts with changed bytes."""
    rng = random.Random(count)
    good = MODEL.to_bytes()
    for turn in range(count):
        fds = []
        message = rng.randbytes(rng.choice((0, 1, 15, 16, 17, 31, 32, 33, 600)) or 1)
        if turn % 2:
            message = opening(version=1, priority=rng.getrandbits(32))
            data = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            fds = [memory_file(bytes(data))]
        elif rng.random() < 0.5:
            fds = [os.open("/dev/zero", os.O_RDONLY) for _ in range(rng.randrange(1, 4))]
        got = asked(path, message, fds)
        for fd in fds:
            os.close(fd)
        assert got is None or got[0] < 0, got
        assert turn % 2 == 0 or got is not None


def die(path: Path, artifact: Artifact, count: int) -> None:
    """Clients that are gone in the middle of a run, one after the other."""
    data = artifact.to_bytes()
    for n in range(count):
        with connected(path) as one:
            fd = memory_file(data)
            socket.send_fds(one, [opening(priority=n % 4)], [fd])
            os.close(fd)
            assert answered(one) == (0, "")
            one.send(struct.pack("<4I", RUN, 1, 0, 0))


@pytest.mark.parametrize(
    "what", ["nothing", "a pipe", "a file", "a device", "empty", "holes", "two", "not an artifact"]
)
def test_what_is_no_artifact_is_refused(serving_all: Serving, tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_bytes(MODEL.to_bytes())
    pipe = os.pipe()
    holes = os.memfd_create("holes", os.MFD_ALLOW_SEALING)
    os.truncate(holes, 1 << 31)
    fds = {
        "nothing": [],
        "a pipe": [pipe[0]],
        "a file": [os.open(tmp_path / "file", os.O_RDONLY)],
        "a device": [os.open("/dev/zero", os.O_RDONLY)],
        "empty": [memory_file(b"")],
        "holes": [holes],
        "two": [memory_file(MODEL.to_bytes()) for _ in range(2)],
        "not an artifact": [memory_file(bytes(1000))],
    }[what]
    before = serving_all.files()
    got = asked(serving_all.path, opening(), fds)
    for fd in {*fds, *pipe, holes}:
        os.close(fd)
    said = "not an artifact" if what == "not an artifact" else "the artifact is no memory file"
    assert got is not None
    assert got[0] < 0
    assert said in got[1] or (what == "not an artifact" and "artifact" in got[1])
    assert serving_all.settles(before)


@pytest.fixture(scope="module")
def serving_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("serve")) as served:
        yield served
        served.end()


@pytest.mark.parametrize(
    "messages",
    [
        [struct.pack("<4I", RUN, 1, 0, 0)],
        [struct.pack("<4I", RESET, 1, 0, 0)],
        [opening()[:31]],
        [opening() + b"\0"],
        [struct.pack("<4I", 0, 0, 1, 0)],  # a simulator's client
        ["open", opening()],
        ["open", struct.pack("<4I", RUN, 1, 0, 0), struct.pack("<4I", RUN, 2, 0, 0)],
        ["open", struct.pack("<4I2Q", RUN, 1, 0, 0, 0, 0)],
    ],
)
def test_who_breaks_the_protocol_is_dropped(
    serving_all: Serving, messages: list[bytes | str]
) -> None:
    with connected(serving_all.path) as one:
        artifact = memory_file(in_parts(400).to_bytes())
        for message in messages:
            if isinstance(message, str):
                socket.send_fds(one, [opening()], [artifact])
                assert answered(one) == (0, "")
            else:
                one.send(message)
        os.close(artifact)
        assert answered(one) is None


def resets(one: socket.socket) -> None:
    for _ in range(100_000):
        one.send(struct.pack("<4I", RESET, 1, 0, 0))


def test_who_reads_no_answers_is_dropped(serving_all: Serving) -> None:
    with connected(serving_all.path) as one:
        artifact = memory_file(MODEL.to_bytes())
        socket.send_fds(one, [opening()], [artifact])
        os.close(artifact)
        with pytest.raises(ConnectionError):
            resets(one)


def test_another_version_and_an_entry_that_is_not_are_refused(serving_all: Serving) -> None:
    artifact = memory_file(MODEL.to_bytes())
    with connected(serving_all.path) as one:
        for version, line in ((2, "the server is of another version of loadstone"), (1, "")):
            socket.send_fds(one, [opening(version)], [artifact])
            assert answered(one) == (lib().LDS_ERR_VERSION if line else 0, line)
        one.send(struct.pack("<4I", RUN, 1, 5, 0))
        got = answered(one)
        assert got is not None
        assert got[0] == lib().LDS_ERR_ARGUMENT
        one.send(struct.pack("<4I", RUN, 2, 0, 0))
        assert answered(one) == (0, "")
    os.close(artifact)


def test_memory_cannot_be_made_shorter_or_longer(serving_all: Serving) -> None:
    artifact = memory_file(MODEL.to_bytes())
    with connected(serving_all.path) as one:
        socket.send_fds(one, [opening()], [artifact])
        _, (memory,), _, _ = socket.recv_fds(one, ANSWER_BYTES, 4)
        for size in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(memory, size)
        seals = fcntl.fcntl(memory, fcntl.F_GET_SEALS)
        assert seals & fcntl.F_SEAL_SEAL
        os.close(memory)
    os.close(artifact)


def sanitized(root: Path) -> Path:
    """A server whose own C is under the sanitizers; the runtime and the simulator are the
    library's."""
    need("gcc", "gcc")
    library = library_file()
    include = [*includes(root), f"-I{root}/hw_sim/include", f"-I{root}/runtime/hosts/include"]
    sources = [
        root / "tests/hosts/serve.c",
        *sorted((root / "runtime/hosts").glob("*.c")),
        root / "driver/packets.c",
    ]
    built = [objects.compiled(["gcc", *STRICT, *SANITIZED, *include], s) for s in sources]
    program = work() / "serve"
    link = ["-lpthread", library, f"-Wl,-rpath,{library.parent}"]
    run(["gcc", *SANITIZED, *built, *link, "-o", program])
    return program


def test_nonsense_finds_nothing_in_a_server_under_the_sanitizers(
    root: Path, tmp_path: Path
) -> None:
    """Networks run and are closed meanwhile; at its end nothing is left on the heap."""
    path = tmp_path / "s"
    with subprocess.Popen(
        [sanitized(root), "sim", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == f"sim at {path}\n"
        served = Serving(child, path)
        width = MODEL.tensors[MODEL.inputs[0]].shape
        for turn in range(times(3, 30)):
            with Easy(in_parts(turn + 1), served.name(priority=turn, deadline_us=1)) as net:
                assert np.array_equal(ran(net, width), ran(net, width))
                nonsense(path, times(40, 2000))
        out, err = child.communicate("", timeout=60)
    assert (child.returncode, err) == (0, "")
    counts = json.loads(out)
    assert counts["networks"] == times(3, 30)
    assert counts["runs"] == 2 * times(3, 30)
    assert counts["refused"] >= times(3, 30) * times(40, 2000) // 2


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


def ran(net: Easy, shape: tuple[int, ...]) -> np.ndarray:
    out = MODEL.tensors[MODEL.outputs[0]].shape
    y = np.zeros(out, np.int8)
    net.run([np.ones(shape, np.int8)], [y])
    return y


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
