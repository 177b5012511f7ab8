# SPDX-License-Identifier: Apache-2.0
"""A Unix socket of packets that listens at a path.

In:   the path.
Out:  the socket, which does not block.
Next: server.py serves simulated devices there; commands/serve.py networks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from loadstone.errors import DeviceError

__all__ = ["Listening", "listening_at"]

_BACKLOG = 128
#: Bytes that a sockaddr_un has for a path, less the 0 behind it.
_LONGEST_PATH = 107


class Listening(socket.socket):
    """Of type SOCK_SEQPACKET. path: where it listens."""

    def __init__(self, path: Path) -> None:
        """Raises OSError; one at `path` without a listener is replaced."""
        super().__init__(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.path = path
        self._file: tuple[int, int] | None = None
        self.setblocking(False)
        try:
            length = len(os.fsencode(path))
            if length > _LONGEST_PATH:
                raise OSError(
                    f"{length} bytes of path; {_LONGEST_PATH} are the most: name a shorter one"
                )
            with _alone_in(path.parent):
                self._appear()
        except OSError:
            self.close()
            raise

    def _appear(self) -> None:
        """Listens under another name first, because a process that waits for `path` may connect as
        soon as it exists. Raises OSError."""
        if self.path.is_socket() and not _listened_at(self.path):
            self.path.unlink()
        hidden = self.path.parent / f".{secrets.token_hex(2)}"
        self.bind(str(hidden))
        try:
            self.listen(_BACKLOG)
            os.link(hidden, self.path)
        except FileExistsError:
            code = errno.EADDRINUSE if self.path.is_socket() else errno.EEXIST
            raise OSError(code, os.strerror(code)) from None
        finally:
            self._file = _file_at(hidden)
            hidden.unlink()

    def withdraw(self) -> None:
        """Stops listening, and removes the path where it is still that of this socket: another
        server may have it by now. Raises OSError."""
        with _alone_in(self.path.parent):
            # closed last: while it is open its file is nobody else's
            if self._file is not None and _file_at(self.path) == self._file:
                self.path.unlink()
            self.close()


def listening_at(path: Path) -> Listening:
    """A socket that listens. Raises DeviceError."""
    try:
        return Listening(path)
    except OSError as error:
        raise DeviceError(f"socket {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process at a time looks who listens in a folder, where that can be locked: of two that
    replace a socket without a listener the second would remove what the first one has made."""
    with contextlib.ExitStack() as ends:
        with contextlib.suppress(OSError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            ends.callback(os.close, opened)
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        about = path.lstat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def _listened_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(
            False
        )  # a server that does not come to accept has a full queue, and is there
        return probe.connect_ex(str(path)) not in (errno.ECONNREFUSED, errno.ENOENT)
