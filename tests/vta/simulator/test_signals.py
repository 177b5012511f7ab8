# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/signals.py: what a signal's handler raises in a run is raised behind it, by the
main thread alone."""

from __future__ import annotations

import threading

import pytest

from loadstone.library.native import ffi
from loadstone.vta.simulator.signals import ASK, raise_what_was_caught


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next question to Python meets Ctrl-C."""

    def handler(_ctx: object) -> int:
        raise KeyboardInterrupt("in the run")

    from loadstone.vta.simulator import signals

    callback = ffi.callback(
        "int(void *)",
        handler,
        error=1,
        onerror=lambda _kind, error, _trace: signals._raised.append(error),
    )
    assert callback(ffi.NULL) == 1  # the core is told to stop


def test_the_core_goes_on_where_nothing_was_raised() -> None:
    assert ASK(ffi.NULL) == 0
    raise_what_was_caught()


@pytest.mark.usefixtures("interrupted")
def test_what_was_raised_is_raised_once() -> None:
    with pytest.raises(KeyboardInterrupt, match="in the run"):
        raise_what_was_caught()
    raise_what_was_caught()


@pytest.mark.usefixtures("interrupted")
def test_another_thread_leaves_it_to_the_main_thread() -> None:
    thread = threading.Thread(target=raise_what_was_caught)
    thread.start()
    thread.join()
    with pytest.raises(KeyboardInterrupt):
        raise_what_was_caught()
