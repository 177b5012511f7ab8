# SPDX-License-Identifier: Apache-2.0
"""The server of simd.py's protocol: it decides which of several clients uses the device, and
answers all of them.

In:   a device (table_simd.py; VTA, simulated or as RTL) and its SharedMemory, a path.
Out:  answers, until it is stopped.
Next: commands/simd.py.

One thread waits for all clients at once: no client can block it by sending nothing or half a
packet, or by not reading its replies.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from loadstone.simulator.listening import listening_at
from loadstone.simulator.simd import (
    HELLO,
    IRQ,
    POST,
    PROTOCOL_VERSION,
    READ,
    WRITE,
    Served,
    SharedMemory,
)

__all__ = ["BUSY_SECONDS", "GREETING_SECONDS", "SILENT_SECONDS", "Server"]

#: A connection without HELLO ends after this time; a client that uses the device then counts as
#: silent; another one is told that the device is in use.
GREETING_SECONDS, SILENT_SECONDS, BUSY_SECONDS = 5.0, 2.0, 3.0
_MESSAGE = struct.Struct("<4I")
_WELCOME = struct.Struct("<4I2I2Q")
#: At a time; who comes then takes the place of the oldest that has not said HELLO.
_CONNECTIONS = 32
#: Requests without an answer that are done in a row, before anybody else is heard.
_POSTS = 64
_LOOK_SECONDS = 0.05


@dataclass(eq=False)
class _Client:
    connection: socket.socket
    heard: float = field(
        default_factory=time.monotonic
    )  # when it connected, or last said something
    greeting: int | None = None  # the sequence of the HELLO that waits for an answer
    level: int = 0  # of the interrupt, as the client has it


class _Gone(Exception):
    """The client closed the connection, or violated the protocol."""


class Server:
    """Answers the clients of one device. The device keeps its state between clients, like a
    board."""

    def __init__(
        self, path: Path, device: Served, memory: SharedMemory, *, alone: bool = True
    ) -> None:
        """Listens at `path`. A socket without a listener is replaced. alone: no other device uses
        this memory, so that a silent client may lose it."""
        self._device, self._memory, self._alone = device, memory, alone
        self.path = path
        self._clients: list[_Client] = []
        self._holder: _Client | None = None
        self._served = 0
        self._socket = listening_at(path)

    def serve(self, *, clients: int | None = None, stop: int | None = None) -> None:
        """Serves this number of clients (None: without end), each until it closes the connection;
        returns earlier when descriptor `stop` is readable."""
        while clients is None or self._served < clients:
            ready = self._wait(stop)
            if stop in ready:
                return
            if self._device.fileno() in ready:
                self._device.irq_seen()
                self._tell_level()
            for client in sorted(
                self._clients, key=lambda c: c is not self._holder
            ):  # who hangs up makes room for who says HELLO
                if client.connection.fileno() in ready:
                    with self._ends(client):
                        self._hear(client)
            if self._socket.fileno() in ready:
                self._accept()
            self._end_those_that_say_nothing()
            self._admit()

    def close(self) -> None:
        """Closes connections, stops listening, and removes the socket."""
        for client in list(self._clients):
            self._end(client)
        self._socket.withdraw()

    # --- waiting ----------------------------------------------------------------------------------
    def _wait(self, stop: int | None) -> set[int]:
        poll = select.poll()
        poll.register(self._device.fileno(), select.POLLIN)
        if stop is not None:
            poll.register(stop, select.POLLIN)
        if len(self._clients) < _CONNECTIONS or self._mute():
            poll.register(self._socket, select.POLLIN)
        for client in (
            self._clients
        ):  # one that waits for the device is heard when it has it; that it hangs up is always told
            poll.register(client.connection, select.POLLIN if client.greeting is None else 0)
        holder_only = all(client is self._holder for client in self._clients)
        return {fd for fd, _ in poll.poll(None if holder_only else int(1000 * _LOOK_SECONDS))}

    def _accept(self) -> None:
        with contextlib.suppress(
            OSError
        ):  # nobody is left; or no descriptor is, and who comes waits
            while len(self._clients) < _CONNECTIONS or self._mute():
                connection, _ = self._socket.accept()
                connection.setblocking(False)
                if len(self._clients) == _CONNECTIONS:
                    self._end(self._mute()[0])
                self._clients.append(_Client(connection))

    def _mute(self) -> list[_Client]:
        """The clients that have not sent HELLO, the oldest first."""
        return [
            client
            for client in self._clients
            if client is not self._holder and client.greeting is None
        ]

    def _end_those_that_say_nothing(self) -> None:
        for client in self._mute():
            if time.monotonic() - client.heard > GREETING_SECONDS:
                self._end(client)

    # --- one client -------------------------------------------------------------------------------
    def _hear(self, client: _Client) -> None:
        for _ in range(_POSTS):
            if not self._hear_one(client):
                break
        self._tell_level()  # no answer to a POST says what it has done to the line

    def _hear_one(self, client: _Client) -> bool:
        """Whether it was a request without an answer, so that another one may be there."""
        try:
            request = client.connection.recv(_MESSAGE.size + 1)
        except BlockingIOError:
            return False
        if len(request) != _MESSAGE.size:
            raise _Gone
        kind, sequence, offset, value = _MESSAGE.unpack(request)
        client.heard = time.monotonic()
        if kind == HELLO:
            client.greeting = sequence
            if client is self._holder:
                self._welcome(client)
            return False
        if client is not self._holder or kind not in (READ, WRITE, POST):
            raise _Gone
        answer = 0
        if kind == READ:
            answer = self._device.read32(offset)
        else:
            self._device.write32(offset, value)
        if kind == POST:
            return True
        client.level = self._device.irq_level()
        client.connection.send(_MESSAGE.pack(kind, sequence, answer, client.level))
        return False

    def _tell_level(self) -> None:
        client = self._holder
        if client is not None and self._device.irq_level() != client.level:
            client.level ^= 1
            with self._ends(client):
                client.connection.send(_MESSAGE.pack(IRQ, 0, 0, client.level))

    def _welcome(self, client: _Client) -> None:
        memory, client.level = self._memory, self._device.irq_level()
        head = (HELLO, client.greeting, PROTOCOL_VERSION, client.level)
        text = _WELCOME.pack(
            *head,
            self._device.page_bytes,
            int(not self._alone),
            memory.bus_address,
            memory.size_bytes,
        )
        client.greeting = None
        socket.send_fds(client.connection, [text], [memory.fd])

    @contextlib.contextmanager
    def _ends(self, client: _Client) -> Iterator[None]:
        """Drops a client that has disconnected or does not read its replies; the server
        continues."""
        try:
            yield
        except (_Gone, OSError):
            self._end(client)

    def _end(self, client: _Client) -> None:
        client.connection.close()
        self._clients.remove(client)
        if client is self._holder:
            self._holder = None
            self._served += 1

    # --- who has the device -----------------------------------------------------------------------
    def _admit(self) -> None:
        for client in [c for c in self._clients if c.greeting is not None]:
            waited = time.monotonic() - client.heard
            if self._holder is None or self._give_way(self._holder):
                self._holder = client
                client.heard = time.monotonic()
                with self._ends(client):
                    self._welcome(client)
            elif waited > BUSY_SECONDS:
                with self._ends(client):
                    client.connection.send(_MESSAGE.pack(HELLO, client.greeting, 0, 0))
                    raise _Gone

    def _give_way(self, holder: _Client) -> bool:
        """Ends the connection of a silent client; the memory that it keeps is no longer the
        device's."""
        if (
            not (self._memory.sealed and self._alone)
            or time.monotonic() - holder.heard < SILENT_SECONDS
        ):
            return False
        fresh = self._memory.fresh()
        if not self._device.use(fresh):
            fresh.close()
            return False
        self._memory.close()
        self._memory = fresh
        self._end(holder)
        return True
