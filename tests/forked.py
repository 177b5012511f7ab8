# SPDX-License-Identifier: Apache-2.0
"""`loadstone` and `python` without the imports: commands that run in a copy of a process that has
TVM, the compiler and the frameworks' readers in memory already.

In:   a folder.
Out:  `tools`: scripts `loadstone` and `python` in it, for a PATH; a shell that calls them sees
      processes with an environment, a folder, streams and an exit status of their own.
Next: docs/test_tutorial.py, docs/test_bring_your_own.py, hosts/test_pages.py,
      backend/test_plugins.py, frontend/test_mutilated.py.

To import TVM takes two seconds, and pages show many commands. What they print is the same; that the
installed command starts from nothing is what test_cli.py, test_layers.py and test_wheel.py show.

A script is a client of a few lines: it hands its streams, words, folder and environment to the
server of this test process, which forks. The server has no threads, and ends with who started it.
"""

from __future__ import annotations

import array
import atexit
import functools
import gc
import json
import os
import runpy
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.conftest import ROOT, THREADS

__all__ = ["tools"]

#: Imported once: what commands and tests of back ends import.
MODULES = ("loadstone.cli", "loadstone.compiler", "loadstone.conformance.check", "onnx", "pytest")
#: A start waits for so long on a busy machine before it is a failure.
START_SECONDS = 300
#: Python without site-packages: some ten milliseconds. A connection that ends without a status is a
#: process that a signal ended.
CLIENT = """
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
text = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
streams = array.array("i", [0, 1, 2])
server.sendmsg([len(text).to_bytes(8, "little")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(text)
status = server.recv(1)
sys.exit(status[0] if status else "the command was ended by a signal")
"""


def tools(folder: Path) -> Path:
    """Writes the scripts into `folder`; the folder."""
    folder.mkdir(exist_ok=True)
    client = folder / "client.py"
    client.write_text(CLIENT, encoding="utf-8")
    start = shlex.join([sys.executable, "-I", "-S", str(client), str(_server())])
    for name, words in (("loadstone", "-m loadstone"), ("python", "")):
        script = f'#!/bin/sh\nexec {start} {words} "$@"\n'
        (folder / name).write_text(script, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@functools.cache
def _server() -> Path:
    """The address of this process's server; it ends when this process closes its input."""
    folder = tempfile.TemporaryDirectory(prefix="lds-forked-")  # an address is at most 107 bytes
    address = Path(folder.name, "server")
    path = os.pathsep.join([str(ROOT), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={
            **os.environ,
            **dict.fromkeys(THREADS, "1"),
            "PYTHONPATH": path.rstrip(os.pathsep),
        },
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert select.select([server.stdout], [], [], START_SECONDS)[0], "the server does not start"
    assert server.stdout.readline() == b"ready\n", "the server does not start"

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


# --- the server -----------------------------------------------------------------------------------
def _serve(address: str) -> None:
    for module in MODULES:
        __import__(module)
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "a process with threads cannot be copied"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        print("ready", flush=True)
        while True:
            ready = select.select([listener.fileno(), 0], [], [], 1.0)[0]
            _reap()
            if 0 in ready:
                return
            if ready:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    listener.close()
                    _run(connection)
                connection.close()


def _reap() -> None:
    """Takes note of processes that have ended, so that their time is counted."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _run(connection: socket.socket) -> NoReturn:
    """In the copy: one command, to its end."""
    size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(3 * 4))
    streams = array.array("i", ancillary[0][2])
    left, text = int.from_bytes(size, "little"), b""
    while left > len(text):
        text += connection.recv(left - len(text))
    words, folder, environment = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    status = _status(words)
    for file in (sys.stdout, sys.stderr):
        try:
            file.flush()
        except OSError:  # nobody reads it any more
            status = status or 1
    connection.sendall(bytes([status]))
    os._exit(status)


def _status(words: list[str]) -> int:
    """The exit status of `python WORDS`, threads and what is registered for the end included."""
    try:
        _python(words)
        status: Any = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(status, str):
        print(status, file=sys.stderr)
    return status & 255 if isinstance(status, int) else int(status is not None)


def _python(words: list[str]) -> None:
    """`-m MODULE ...`, `-c CODE ...`, or `FILE ...`."""
    kind, *rest = words
    own = [str(ROOT)]
    extra = [word for word in os.environ.get("PYTHONPATH", "").split(os.pathsep) if word]
    first = os.path.dirname(os.path.abspath(kind)) if kind[0] != "-" else os.getcwd()
    sys.path[:] = [first, *extra, *(p for p in sys.path if p not in (*extra, *own))]
    sys.path_importer_cache.clear()
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(rest[0], "<string>", "exec"), vars(module))
    else:
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1])
