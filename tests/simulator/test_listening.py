# SPDX-License-Identifier: Apache-2.0
"""simulator/listening.py: which path a server gets, and whose it leaves alone."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loadstone.errors import DeviceError
from loadstone.simulator import listening
from loadstone.simulator.listening import listening_at


def test_a_client_reaches_it_and_nothing_else_is_left_beside_it(tmp_path: Path) -> None:
    with listening_at(tmp_path / "s"), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        one.connect(str(tmp_path / "s"))
        assert os.listdir(tmp_path) == ["s"]


def test_a_socket_without_a_listener_is_replaced_and_one_with_is_not(tmp_path: Path) -> None:
    listening_at(tmp_path / "s").close()
    with listening_at(tmp_path / "s"), pytest.raises(DeviceError, match="Address already in use$"):
        listening_at(tmp_path / "s")
    (tmp_path / "file").write_text("not a socket")
    with pytest.raises(DeviceError, match="File exists$"):
        listening_at(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "not a socket"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("s" * 108, "107 are the most"),
        ("s" * 300, "107 are the most"),
        ("no/folder", "No such file or directory"),
        (".", "File exists"),
        ("..", "File exists"),
    ],
)
def test_a_path_that_cannot_be_is_one_line(tmp_path: Path, name: str, line: str) -> None:
    with pytest.raises(DeviceError, match=line):
        listening_at(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_the_root_is_no_place_for_a_socket() -> None:
    with pytest.raises(DeviceError, match="File exists$"):
        listening_at(Path("/"))
    with pytest.raises(DeviceError, match="File exists$"):
        listening_at(Path("."))


def test_it_removes_its_own_path_alone(tmp_path: Path) -> None:
    """Somebody removed the first one's, and another server came."""
    path = tmp_path / "s"
    first = listening_at(path)
    path.unlink()
    second = listening_at(path)
    first.withdraw()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        one.connect(str(path))
    second.withdraw()
    assert os.listdir(tmp_path) == []
    second.withdraw()


def _listens(path: Path) -> bool:
    """Of two who come at once one has the path, and a client reaches it."""
    try:
        made = listening_at(path)
    except DeviceError:
        return False
    with made, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        time.sleep(0.3)
        one.connect(str(path))
        made.accept()[0].close()
        made.withdraw()
        return True


def test_who_replace_one_without_a_listener_at_once_do_not_lose_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = listening._listened_at

    together = threading.Barrier(4)

    def slow(path: Path) -> bool:
        """All have looked before one goes on, and they go on one after the other, if they can."""
        found = look(path)
        with contextlib.suppress(threading.BrokenBarrierError):
            time.sleep(0.05 * together.wait(0.2))
        return found

    monkeypatch.setattr(listening, "_listened_at", slow)
    path = tmp_path / "s"
    listening_at(path).close()
    with ThreadPoolExecutor(4) as pool:
        assert any(list(pool.map(_listens, [path] * 4)))
    assert os.listdir(tmp_path) == []
