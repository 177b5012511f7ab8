# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium that a test can use: scripts, clicks, files, pictures.

In:   an address, or a folder that is served on this machine.
Out:  `Page`: evaluates JavaScript, chooses files, takes a picture of a width.
Next: tests/lab/test_page.py; tests/browser.py reads pages that need no hand.

Chromium speaks its own protocol (Chrome DevTools) through two pipes: JSON that ends with a zero
byte, so that no library of websockets is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.browser import browser

__all__ = ["Page", "served"]

_WORDS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


#: An error while the page is loading is no answer.
_POLL = """new Promise((yes, no) => {
  const end = Date.now() + 30000;
  const is = () => { try { return UNTIL; } catch { return false; } };
  const late = () => Date.now() > end;
  const ask = () => (is() ? yes(true) : late() ? no(new Error("never true")) : setTimeout(ask, 20));
  ask();
})"""


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the folder's files stand, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Page:
    """A page of a fresh browser; skips the test where there is none. folder: for its profile."""

    def __init__(self, folder: Path) -> None:
        found = browser()
        if found is None:
            pytest.skip("no Chromium is installed (apt-get install chromium)")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        words = [found, *_WORDS, f"--user-data-dir={folder / 'chromium'}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, *words],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._session, self._rest = 0, "", b""
        #: What the page threw and nobody caught.
        self.errors: list[str] = []
        pages = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in pages if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "DOM"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, address: str, until: str) -> None:
        """Goes there, and waits until an expression is true."""
        self._call("Page.navigate", url=address)
        self.wait(until)

    def wait(self, until: str) -> None:
        """Until an expression is true; half a minute at most."""
        self.evaluate(_POLL.replace("UNTIL", until))

    def evaluate(self, script: str) -> object:
        """The value of an expression, awaited. Raises AssertionError with what it threw."""
        done = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def type(self, selector: str, text: str) -> None:
        """Puts a text into a field, as a hand would: its event follows."""
        field = f"document.querySelector({json.dumps(selector)})"
        told = "dispatchEvent(new Event('input', {bubbles: true}))"
        self.evaluate(f"{field}.value = {json.dumps(text)}; {field}.{told}")

    def click(self, selector: str) -> None:
        """Presses what the selector finds first."""
        press = "dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        self.evaluate(f"document.querySelector({json.dumps(selector)}).{press}")

    def choose(self, selector: str, file: Path) -> None:
        """Chooses a file."""
        root = self._call("DOM.getDocument")["root"]["nodeId"]
        node = self._call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self._call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def resize(self, width: int, height: int = 900) -> None:
        """The window's inner size."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def picture(self, file: Path) -> None:
        """The whole page as PNG, when all of it is painted."""
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("innerWidth")
        self.resize(int(str(width)), int(str(height)))
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200)))")
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b64decode(shot["data"]))

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(answer["params"]["exceptionDetails"]))
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._from, 1 << 20)
            assert part, "Chromium ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))
