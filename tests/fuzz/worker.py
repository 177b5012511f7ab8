# SPDX-License-Identifier: Apache-2.0
"""A function in a process of its own, which may die or hang: the question that it was at is told.

In:   a function of one question; questions, which travel pickled.
Out:  its answers, ("traceback" | "hang", why) where there is none.
Next: models.py has one for Loadstone, and one for the framework.

A process is forked when the first question comes, so that what the parent imported is there, and
answers many: what a compiler reads once is read once. It is replaced after `LIFE` questions, when
it died, and when it took too long; a question that ended it is asked once more of a fresh process,
as what came before may have been the cause.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["LIFE", "Answer", "Worker"]

#: Questions that one process answers.
LIFE = 250
#: What a function gives: a word, and what belongs to it.
Answer = tuple[str, Any]


class Worker:
    """`work` elsewhere; a context, so that no process is left."""

    def __init__(self, work: Callable[[Any], Answer], timeout_seconds: float) -> None:
        self._work, self._timeout_seconds = work, timeout_seconds
        self._child = self._asked = 0
        self._question = self._answer = -1

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, question: Any) -> Answer:
        """What `work` gives. What ended a used process is asked once more: it is
        given when a fresh one ends by it too, and named when it does not."""
        used = self._asked > 0
        answer = self._ask(question)
        if answer[0] in ("traceback", "hang") and used:
            self._end()
            again = self._ask(question)
            if again[0] != answer[0]:
                return "traceback", f"only after {LIFE} others at most: {answer[0]}: {answer[1]}"
        return answer

    def _ask(self, question: Any) -> Answer:
        if self._asked >= LIFE:
            self._end()
        if not self._child:
            self._begin()
        self._asked += 1
        data = pickle.dumps(question)
        try:
            _send(self._question, data)
        except BrokenPipeError:
            return self._died()
        deadline = time.monotonic() + self._timeout_seconds
        head = self._read(8, deadline)
        body = (
            self._read(int.from_bytes(head, "little"), deadline)
            if isinstance(head, bytes)
            else head
        )
        if isinstance(body, bytes):
            said, what = pickle.loads(body)  # of our own child
            return str(said), what
        return body

    def _read(self, size: int, deadline: float) -> bytes | Answer:
        data = b""
        while len(data) < size:
            if not select.select([self._answer], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self._end()
                return "hang", f"no end within {self._timeout_seconds} s"
            if not (more := os.read(self._answer, min(size - len(data), 1 << 20))):
                return self._died()
            data += more
        return data

    def _begin(self) -> None:
        theirs, self._question = os.pipe()
        self._answer, back = os.pipe()
        sys.stdout.flush()
        self._child, self._asked = os.fork(), 0
        if self._child:
            os.close(theirs)
            os.close(back)
            return
        try:
            os.close(self._question)
            os.close(self._answer)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            self._serve(theirs, back)
        finally:
            os._exit(0)

    def _serve(self, questions: int, answers: int) -> None:
        with os.fdopen(questions, "rb") as stream:
            while head := stream.read(8):
                question = pickle.loads(stream.read(int.from_bytes(head, "little")))
                _send(answers, pickle.dumps(self.answer_here(question)))

    def answer_here(self, question: Any) -> Answer:
        """What `work` gives in this process, which it may end."""
        try:
            return self._work(question)
        except BaseException as error:
            lines = str(error).strip().splitlines() or [""]
            return "traceback", f"{type(error).__name__}: {lines[0][:200]}"

    def _died(self) -> Answer:
        _, status = os.waitpid(self._child, 0)
        self._forget()
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status >> 8}"
        return "traceback", f"the process ended with {how}"

    def _end(self) -> None:
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._forget()

    def _forget(self) -> None:
        os.close(self._question)
        os.close(self._answer)
        self._child = self._asked = 0


def _send(pipe: int, data: bytes) -> None:
    view = memoryview(len(data).to_bytes(8, "little") + data)
    while view:
        view = view[os.write(pipe, view) :]
