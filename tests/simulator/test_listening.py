# SPDX-License-Identifier: Apache-2.0
"""simulator/listening.py: which path a server gets, and whose it leaves alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from loadstone.errors import DeviceError
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
    with pytest.raises(DeviceError, match="Address already in use$"):
        listening_at(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "not a socket"


@pytest.mark.parametrize(
    ("name", "line"), [("s" * 108, "107 are the most"), ("no/folder", "No such file or directory")]
)
def test_a_path_that_cannot_be_is_one_line(tmp_path: Path, name: str, line: str) -> None:
    with pytest.raises(DeviceError, match=line):
        listening_at(tmp_path / name)
    assert os.listdir(tmp_path) == []
