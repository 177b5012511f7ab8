# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/serve.c: who sends nonsense, no artifact or what the protocol has not is refused or
dropped, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.library.native import lib, library_file
from tests import objects
from tests.board.tools import need, run, work
from tests.c.build import SANITIZED, STRICT, includes
from tests.hosts.easy import Easy
from tests.hosts.serving import (
    ANSWER_BYTES,
    MODEL,
    RESET,
    RUN,
    Serving,
    answered,
    asked,
    connected,
    in_parts,
    memory_file,
    nonsense,
    opening,
    ran,
    serving,
)
from tests.hosts.test_beside import exact, on_two
from tests.repeat import times


@pytest.fixture(scope="module")
def serving_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("serve")) as served:
        yield served
        served.end()


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


@pytest.mark.parametrize("inputs", [MODEL.inputs, ()])
def test_a_network_without_steps_ends_no_server(
    serving_all: Serving, inputs: tuple[int, ...]
) -> None:
    nothing = replace(MODEL, steps=(), inputs=inputs, outputs=inputs)
    with connected(serving_all.path) as one:
        artifact = memory_file(nothing.to_bytes())
        socket.send_fds(one, [opening()], [artifact])
        os.close(artifact)
        assert answered(one) == (0, "")
        for _ in range(3):
            one.send(struct.pack("<4I", RUN, 1, 0, 0))
            assert answered(one) == (0, "")
    assert serving_all.process.poll() is None


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
        for version, line in ((1, "the server is of another version of loadstone"), (2, "")):
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
            graph, artifact = on_two()
            with Easy(artifact, served.name()) as net:
                exact(net, graph)
                nonsense(path, times(40, 2000), artifact)
        out, err = child.communicate("", timeout=60)
    assert (child.returncode, err) == (0, "")
    counts = json.loads(out)
    assert counts["networks"] == 2 * times(3, 30)
    assert counts["runs"] == 3 * times(3, 30)
    assert counts["refused"] >= times(3, 30) * times(40, 2000)
