# SPDX-License-Identifier: Apache-2.0
"""A Unix socket of packets that listens at a path.

In:   the path.
Out:  the socket, which does not block.
Next: server.py serves simulated devices there; commands/serve.py networks.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from pathlib import Path

from loadstone.errors import DeviceError

__all__ = ["listening_at"]

_BACKLOG = 128
#: Bytes that a sockaddr_un has for a path, less the 0 behind it.
_LONGEST_PATH = 107


def listening_at(path: Path) -> socket.socket:
    """A socket of type SOCK_SEQPACKET. One at `path` without a listener is replaced. Raises
    DeviceError."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    if path.is_socket() and not _listened_at(path):
        path.unlink()
    try:
        _appear(made, path)
    except OSError as error:
        made.close()
        raise DeviceError(f"socket {path}: {error.strerror or error}") from error
    return made


def _appear(made: socket.socket, path: Path) -> None:
    """Listens under another name first, because a process that waits for `path` may connect as soon
    as it exists. Raises OSError."""
    length = len(os.fsencode(path))
    if length > _LONGEST_PATH:
        raise OSError(f"{length} bytes of path; {_LONGEST_PATH} are the most: name a shorter one")
    hidden = path.with_name(f".{secrets.token_hex(2)}")
    made.bind(str(hidden))
    try:
        made.listen(_BACKLOG)
        os.link(hidden, path)
    except FileExistsError:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from None
    finally:
        hidden.unlink()


def _listened_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(
            False
        )  # a server that does not come to accept has a full queue, and is there
        return probe.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT)
