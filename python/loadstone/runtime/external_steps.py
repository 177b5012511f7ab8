# SPDX-License-Identifier: Apache-2.0
"""External steps in Python: whether they may run, what runs them, and their errors.

In:   an artifact; a step and the arrays of its operands.
Out:  the step's outputs, written in place; errors that name the step and its cause.
Next: session.py checks the steps before it opens a session, and calls them for the C runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_C, EXTERNAL_RELAX
from loadstone.backend.external import external_function, register_external
from loadstone.errors import ArtifactError, DeviceError, LoadstoneError, cause_of
from loadstone.numerics import Array
from loadstone.runtime.own_files import is_own

__all__ = [
    "HOST",
    "CallTimes",
    "call_external",
    "check_externals",
    "code_steps",
    "place_of",
    "trusts",
]

#: Where steps run that no accelerator takes.
HOST = "host"

#: External functions whose attributes are a program: in a file from elsewhere it may be any. Value:
#: what it is.
CODE = {EXTERNAL_C: "a program in C", EXTERNAL_RELAX: "a program for TVM"}
#: The runtime's own functions begin with it (artifact/host.py).
_OWN = "loadstone."


class CallTimes:
    """The times of calls of a session's external steps, by the clock of this machine. The first
    call of a step may compile, or load a library: once there is a second call, the first counts
    with the second one's time."""

    def __init__(self) -> None:
        self._first: dict[int, float] = {}

    def added(self, step: int, seconds: float) -> float:
        """What another call adds to the sum of all."""
        first = self._first.get(step)
        if first is None:
            self._first[step] = seconds
            return seconds
        self._first[step] = 0.0
        return seconds - max(0.0, first - seconds)


def place_of(step: HostStep) -> str:
    """The back end that executes a step, which is the prefix of its function's name."""
    if not step.function or step.function.startswith(_OWN):
        return HOST
    return step.function.partition(".")[0]


def code_steps(artifact: Artifact) -> list[HostStep]:
    """The steps that are programs, which run with the rights of the user who runs the model."""
    return [s for s in artifact.steps if isinstance(s, HostStep) and s.function in CODE]


def trusts(artifact: Artifact, trust: bool) -> bool:
    """Whether its programs may run: the caller says so, this user compiled it on this machine, or
    it has none."""
    return trust or not code_steps(artifact) or is_own(artifact)


def check_externals(artifact: Artifact, trust: bool) -> None:
    """Finds a function for every external step. Raises ArtifactError where there is none, or where
    the step is a program that may not run."""
    found = [s for s in artifact.steps if isinstance(s, HostStep) and s.function]
    if not trusts(artifact, trust):
        code = code_steps(artifact)
        raise ArtifactError(
            f"model {artifact.name!r} was not compiled here by you, and {len(code)} of its steps "
            f"(the first: {code[0].name!r}) would run {CODE[code[0].function]} from the file as "
            "you: say --trust (in Python: trust=True) if you trust whoever made the file"
        )
    for step in found:
        if step.function != EXTERNAL_C and _function(step) is None:
            raise ArtifactError(
                f"step {step.name!r} needs the external function {step.function!r}: name "
                "its back end's folder with --uma-backends, "
                "or make it known with device.register_external"
            )
    if any(step.function == EXTERNAL_C for step in found):
        from loadstone.runtime.c_step import prepare  # a compiler only for who needs one

        prepare(artifact)


def call_external(step: HostStep, operands: Sequence[Array]) -> None:
    """Computes the outputs, which follow the inputs in `operands`, each in its own shape. Raises
    the function's exception; for a plug-in's function as one line that names the step."""
    if step.function == EXTERNAL_C:
        from loadstone.runtime.c_step import run_c_step

        run_c_step(operands, step.attributes)
        return
    count = len(step.inputs)
    function = external_function(step.function)
    assert function is not None
    try:
        results = function(operands[:count], step.attributes)
        for out, result in zip(operands[count:], results, strict=True):
            out[...] = result
    except Exception as error:
        if step.function.startswith(_OWN) or isinstance(error, LoadstoneError):
            raise
        raise _foreign(error, step) from error


def _function(step: HostStep) -> object:
    if external_function(step.function) is None:
        _load_externals(step.function)
    return external_function(step.function)


def _load_externals(name: str) -> None:
    """Registers the runtime's own functions, or those of the installed back ends."""
    if name.startswith(_OWN):
        # what the compiler leaves to Python; a board without it never comes here
        from loadstone.runtime.externals import EXTERNALS

        for own, function in EXTERNALS.items():
            register_external(own, function)
    else:
        from loadstone.backend.plugins import load_plugins

        load_plugins()


def _foreign(error: Exception, step: HostStep) -> DeviceError:
    """The exception of a plug-in's function, as one line that names the step, the file and the
    cause."""
    code = getattr(external_function(step.function), "__code__", None)
    file = code.co_filename if code is not None else ""
    return DeviceError(
        f"step {step.name!r}: {step.function}{f' in {file}' if file else ''}: "
        f"{cause_of(error, file)}"
    )
