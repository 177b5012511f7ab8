# SPDX-License-Identifier: Apache-2.0
"""The time of one host step: processor time of the C that a board would run, on one thread.

In:   a step, its artifact and its device; the C compiler of this machine.
Out:  nanoseconds.
Next: partition/cost/prices.py compares plans by it; analysis/report.py shows it.

The steps that `loadstone export` writes as C are compiled here as well, and called in a loop in C:
Python computes such a step with NumPy, whose time says nothing of a board's. The runtime's own
steps are C already, and run in a session. What C cannot do (a Relax function, a plug-in's) is
called as it is. Where there is no compiler all steps run in a session.
"""

from __future__ import annotations

import ctypes
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_OPERATOR
from loadstone.backend.device import Device
from loadstone.errors import ArtifactError
from loadstone.runtime.c_step import built_library, c_compiler
from loadstone.runtime.device import OpenedDevice
from loadstone.runtime.external_steps import check_externals
from loadstone.runtime.session import Session
from loadstone.runtime.step_signature import step_signature
from loadstone.runtime.step_source import check_computable, content, step_source

__all__ = ["StepTimes", "has_compiler", "measured_ns"]

_ROUNDS = 7
_ROUND_SECONDS = 1e-3
#: A step that takes longer is run twice only.
_LONG_SECONDS = 0.1
#: Calls a function so many times; the processor time of this thread, in nanoseconds.
_LOOP = """\
#define _POSIX_C_SOURCE 199309L
#include <time.h>
long long lds_time(void (*f)(void *const *), void *const *operands, int count) {
  struct timespec a, b;
  int k;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  for (k = 0; k < count; ++k) f(operands);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  return (long long)(b.tv_sec - a.tv_sec) * 1000000000LL + (b.tv_nsec - a.tv_nsec);
}
"""


def has_compiler() -> bool:
    """Whether steps can be compiled here."""
    return shutil.which(c_compiler()[0]) is not None


def measured_ns(step: HostStep, artifact: Artifact, device: Device, *, trust: bool) -> int:
    """The median of a few rounds of the step alone. trust: whether it may be code (SECURITY.md).

    Not the least: a step whose time depends on what else the machine does shall not look better
    than it mostly is.
    """
    if has_compiler() and step.function:
        check_externals(replace(artifact, steps=(step,)), trust)
        if step.function == EXTERNAL_OPERATOR and not trust:
            check_computable(step, artifact)
        source = step_source(step, artifact)
        if source is not None:
            return _in_c(step, artifact, *source)
    return _in_session(step, artifact, device, trust)


class StepTimes:
    """The times of an artifact's host steps, where equal steps are measured once: an unrolled
    recurrent network has some thousand of them, of a few kinds."""

    def __init__(self, artifact: Artifact, device: Device, *, trust: bool) -> None:
        """trust: as for measured_ns."""
        self.artifact, self.device, self.trust = artifact, device, trust
        self._found: dict[str, int] = {}

    def ns(self, step: HostStep) -> int:
        """As measured_ns."""
        key = step_signature(step, self.artifact.tensors)
        if key not in self._found:
            self._found[key] = measured_ns(step, self.artifact, self.device, trust=self.trust)
        return self._found[key]


def _rounds(seconds: Callable[[int], float]) -> int:
    """Nanoseconds of one. seconds: that so many take, one after the other."""
    # the first time compiles a Relax function, and may have met with anything
    least = min(seconds(1) for _ in range(2))
    if least > _LONG_SECONDS:
        return int(least * 1e9)
    count = max(1, min(256, int(_ROUND_SECONDS / max(least, 1e-9))))
    return int(median(seconds(count) for _ in range(_ROUNDS)) * 1e9 / count)


# --- in C -----------------------------------------------------------------------------------------
def _in_c(step: HostStep, artifact: Artifact, symbol: str, source: str) -> int:
    library = _library(symbol, source)
    arrays = [np.array(content(artifact, index)) for index in (*step.inputs, *step.outputs)]
    operands = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    timed = library.lds_time
    timed.restype = ctypes.c_longlong
    function = ctypes.cast(getattr(library, symbol), ctypes.c_void_p)
    return _rounds(lambda count: timed(function, operands, count) / 1e9)


@lru_cache(maxsize=1024)
def _library(symbol: str, source: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        files = []
        for name, text in ((symbol, source), ("time", _LOOP)):
            files.append(str(Path(folder, f"{name}.c")))
            Path(files[-1]).write_text(text, encoding="utf-8")
        return built_library(files, (), lambda why: ArtifactError(f"step {symbol}: {why}"))


# --- in a session ---------------------------------------------------------------------------------
def _in_session(step: HostStep, artifact: Artifact, device: Device, trust: bool) -> int:
    """On a device that does nothing."""
    with OpenedDevice("null", "", device) as opened:
        alone, sessions = _alone(step, artifact), dict[int, Session]()

        def seconds(count: int) -> float:
            if count not in sessions:
                many = replace(alone, steps=alone.steps * count)
                sessions[count] = opened.load(many, trust=trust)
            start = time.thread_time()
            sessions[count].execute()
            return time.thread_time() - start

        return _rounds(seconds)


def _alone(step: HostStep, artifact: Artifact) -> Artifact:
    """The step with its own tensors: those of a large network take longer to check than it
    takes."""
    used = sorted({*step.inputs, *step.outputs})
    inputs, outputs = (
        tuple(used.index(index) for index in side) for side in (step.inputs, step.outputs)
    )
    return replace(
        artifact,
        tensors=tuple(artifact.tensors[index] for index in used),
        inputs=(),
        outputs=(),
        steps=(replace(step, inputs=inputs, outputs=outputs),),
    )
