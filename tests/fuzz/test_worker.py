# SPDX-License-Identifier: Apache-2.0
"""A worker answers in a process that lives on; deaths and hangs are told, and do not reach the next
question."""

from __future__ import annotations

import os
import time
from typing import Any

from tests.fuzz.worker import Answer, Worker

_seen: list[Any] = []


def _work(question: Any) -> Answer:
    _seen.append(question)
    if question == "die":
        os.kill(os.getpid(), 11)
    if question == "leave":
        os._exit(3)
    if question == "hang":
        time.sleep(100)
    if question == "raise":
        raise ValueError("two\nlines")
    if question == "tired" and len(_seen) > 1:
        raise ValueError("worn")
    return "done", (os.getpid(), question, len(_seen))


def test_one_process_answers_many_and_a_death_is_told() -> None:
    with Worker(_work, 0.5) as worker:
        (first, _, _), (second, text, seen) = (worker.ask(q)[1] for q in ("a", "b" * 300_000))
        assert (first, seen, len(text)) == (second, 2, 300_000)
        assert first != os.getpid()
        assert worker.ask("die") == ("traceback", "the process ended with signal 11")
        assert worker.ask("leave") == ("traceback", "the process ended with status 3")
        assert worker.ask("hang")[0] == "hang"
        assert worker.ask("raise") == ("traceback", "ValueError: two")
        assert worker.ask("c")[1][0] != first
    assert not _seen, "the work was done here"


def test_what_only_a_used_process_does_is_named() -> None:
    with Worker(_work, 5) as worker:
        worker.ask("a")
        said, why = worker.ask("tired")
    assert said == "traceback"
    assert why.startswith("only after")
