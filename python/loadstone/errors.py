# SPDX-License-Identifier: Apache-2.0
"""All errors, as one tree of exceptions.

In:   nothing.
Out:  the exception classes that all stages raise; Refusal, the reason for refusing an operator.
Next: cli.py turns a LoadstoneError into one line on stderr and exit status 2.

    LoadstoneError                 a user's mistake or a limit: one clear line, no traceback
     +-- ConfigError               a device description that cannot be used
     +-- EncodingError             a field or opcode that the instruction set cannot express
     +-- AssemblerError            assembler text that does not parse
     +-- ArtifactError             a file that is not a sound artifact, or for another device
     +-- ModelError                a model file that cannot be read
     |    +-- UnsupportedError     a model that can be read, but holds what Loadstone does not do
     +-- TargetError               a target string, alias or attribute that means nothing
     +-- LoweringError             a stage met what it cannot lower (names the stage)
     +-- BackendError              a back end from outside the tree raised something else
     |                             (names it, file and line)
     +-- DeviceError               the device, the driver or the runtime reported an error
     |    +-- DeviceHungError      the deadline passed without progress
     +-- SimulationError           the simulator stopped a program: bounds, deadlock, cycle limit
    VerificationError              our own mistake, found by a pass's verifier: one line that asks
                                   for a report; no stage catches it

Our own mistakes are `assert`s or VerificationErrors, and never LoadstoneErrors.
A message names the thing, its value, the limit, and what to do:
`LOAD.y_pad_0=16 does not fit 4 bits [0, 15]`.

What is refused of a model is a Refusal, raised as `UnsupportedError(refusal)`; where the network
goes on without it, the same Refusal is the reason why an operator stays on the host.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

__all__ = [
    "ArtifactError",
    "AssemblerError",
    "BackendError",
    "ConfigError",
    "DeviceError",
    "DeviceHungError",
    "EncodingError",
    "LoadstoneError",
    "LoweringError",
    "ModelError",
    "Refusal",
    "SimulationError",
    "TargetError",
    "UnsupportedError",
    "VerificationError",
    "axis_hint",
    "cause_of",
    "check_arguments",
    "naming",
    "not_installed",
    "python_too_old",
    "shortened",
    "suggestion",
]


#: A refusal is read by a person: what is longer is cut in the middle.
MAX_MESSAGE_CHARACTERS = 400
#: The compiler's oldest Python; what runs on a board runs from pyproject.toml's requires-python on.
COMPILER_PYTHON = (3, 11)
#: Extras that do not bring the compiler, or parts of it.
_WITHOUT_COMPILER = ("images", "language", "terminal")


@dataclass(frozen=True)
class Refusal:
    """What is not done, as one line: `model: operator (node "node"): why: remedy`.

    why: names the thing, its value and the limit. remedy: what would change it, and is true; empty
    where nothing does. operator, node, model: as the model's file calls them; empty where whoever
    shows the refusal says them, as `--explain` does. place: how the line calls operator and node,
    where a format has a way of its own. always: a back end never takes an operator of
    this kind, and offers its pattern for the sake of this reason alone; `loadstone conform` then
    does not ask for cases that are taken.

    >>> Refusal("a kernel of 9 rows, the buffer holds 7", "a larger max_kernel").why
    'a kernel of 9 rows, the buffer holds 7'
    >>> print(Refusal("antialias=1, only 0 is done", "resize before the model", "Resize", "up"))
    Resize (node "up"): antialias=1, only 0 is done: resize before the model
    """

    why: str
    remedy: str
    operator: str = ""
    node: str = ""
    model: str = ""
    always: bool = False
    place: str = ""

    def __str__(self) -> str:
        node = f'(node "{self.node}")' if self.node else ""
        about = self.place or " ".join(part for part in (self.operator, node) if part)
        parts = (self.model, about, self.why, self.remedy)
        return " ".join(": ".join(part for part in parts if part).split())


class LoadstoneError(Exception):
    """Base of everything a user can cause; its text is one line of at most 400 characters."""

    def __str__(self) -> str:
        return shortened(super().__str__(), MAX_MESSAGE_CHARACTERS)


class ConfigError(LoadstoneError):
    """A device description that cannot be used: names the field, its value and the limit."""


class EncodingError(LoadstoneError):
    """A field value, opcode or byte stream that the instruction set cannot express."""


class AssemblerError(LoadstoneError):
    """Assembler text that does not parse: names the line and what was expected."""


class ArtifactError(LoadstoneError):
    """A file that is not a sound artifact, or one made for another device."""


class ModelError(LoadstoneError):
    """A model file that cannot be read."""


class UnsupportedError(ModelError):
    """A model that can be read but holds an operator or form that Loadstone does not do.

    >>> try:
    ...     raise UnsupportedError(Refusal("dilated", "dilation 1", "MaxPool", "pool_1"))
    ... except UnsupportedError as error:
    ...     print(error.refusal.node, "|", error)
    pool_1 | MaxPool (node "pool_1"): dilated: dilation 1
    """

    def about(self, model: str, operator: str, node: str, place: str = "") -> UnsupportedError:
        """The same, of an operator of a model; a text is `why: remedy`, and may begin with model
        and place. One that has a Refusal stays as it is.

        >>> error = UnsupportedError("its axis is 9: name one of 4").about("a.tflite", "PACK", "y")
        >>> error.refusal.remedy, str(error)
        ('name one of 4', 'a.tflite: PACK (node "y"): its axis is 9: name one of 4')
        """
        if self.refusal is not None:
            return self
        text = " ".join(str(word) for word in self.args).removeprefix(f"{model}: {place}: ")
        why, _, remedy = text.partition(": ")
        return UnsupportedError(Refusal(why, remedy, operator, node, model, place=place))

    @property
    def refusal(self) -> Refusal | None:
        """What it was raised with; None where that was a text."""
        said = self.args[0] if self.args else None
        return said if isinstance(said, Refusal) else None


class TargetError(LoadstoneError):
    """A target string, alias or attribute that is unknown or invalid."""


class LoweringError(LoadstoneError):
    """A compiler stage received something that it cannot lower; the text begins with the stage's
    name."""


class BackendError(LoadstoneError):
    """A back end from outside the tree raised an exception: its name, the request, file, line and
    cause."""


class DeviceError(LoadstoneError):
    """The device, the driver or the C runtime reported an error status."""


class DeviceHungError(DeviceError):
    """The deadline passed while the device made no progress."""


class SimulationError(LoadstoneError):
    """The simulator stopped a program: access out of bounds, deadlock, cycle limit, race."""


class VerificationError(Exception):
    """A pass has not kept what it promises: the compiler's fault, so that it is no LoadstoneError,
    which an operator could be left on the host for.

    >>> str(VerificationError("prefetch", "a store moved", "vta_0"))[:46]
    'pass prefetch on vta_0 is wrong: a store moved'
    """

    def __init__(self, name: str, found: str, subject: str = "") -> None:
        """name: of the pass. found: what does not hold."""
        super().__init__(name, found, subject)

    def __str__(self) -> str:
        name, found, subject = self.args
        where = f" on {subject}" if subject else ""
        return (
            f"pass {name}{where} is wrong: {shortened(found, MAX_MESSAGE_CHARACTERS // 2)}: a "
            "mistake of Loadstone's, not of the model's: please report it with model and command"
        )


def shortened(text: str, most_characters: int) -> str:
    """A text without its middle, where it is too long.

    >>> shortened("what is longer is cut in the middle", 20)
    'what is ... middle'
    """
    if len(text) <= most_characters:
        return text
    kept = most_characters - len(" ... ")
    head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
    return f"{head.rstrip()} ... {tail.lstrip()}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """What stands behind a word that means nothing, where one that does is near.

    >>> suggestion("comple", ["compile", "compare"])
    '; did you mean compile?'
    >>> suggestion("nonsense", ["compile"])
    ''
    """
    import difflib  # here: only a mistake needs it

    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def python_too_old() -> str:
    """Why the compiler cannot run on this Python, with the remedy; empty where it can."""
    here = sys.version_info[:2]
    if here >= COMPILER_PYTHON:
        return ""
    needed, found = (".".join(map(str, version)) for version in (COMPILER_PYTHON, here))
    return (
        f"the compiler needs Python {needed} or newer, and this is {found}: compile with a newer "
        "one, on any machine, and run the artifact here"
    )


def not_installed(package: str, extra: str) -> str:
    """States that a package is missing, and which extra installs it, where this Python supports
    it."""
    old = "" if extra in _WITHOUT_COMPILER else python_too_old()
    remedy = f", and {old}" if old else f": pip install 'loadstone[{extra}]'"
    return f"{package} is not installed{remedy}"


def check_arguments(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises ConfigError for the first argument name that a function lacks, with a similar one."""
    names = list(known)
    for name in given:
        if name not in names:
            near = suggestion(name, names) or f"; it takes {', '.join(names)}"
            raise ConfigError(f"{function} takes no {name!r}{near}")


def axis_hint(given: Sequence[int], sample: Sequence[int]) -> str:
    """Which axis is missing of arrays (samples, ...) whose sample has this shape, where one is.

    >>> axis_hint((1, 3, 8, 8), (1, 3, 8, 8))
    '; one sample is x[None]'
    >>> axis_hint((9, 3, 8, 8), (1, 3, 8, 8))
    '; the model has an axis of 1 before them: x[:, None]'
    """
    if tuple(given) == tuple(sample):
        return "; one sample is x[None]"
    if sample and sample[0] == 1 and tuple(given[1:]) == tuple(sample[1:]):
        return "; the model has an axis of 1 before them: x[:, None]"
    return ""


def cause_of(error: BaseException, file: str = "") -> str:
    """An exception of foreign code in one line: `ZeroDivisionError: division by zero (npu.py:31)`.
    file: the file whose innermost line is named."""
    import traceback  # here: few commands ever need it

    frames = traceback.extract_tb(error.__traceback__)
    frame = next(
        (frame for frame in reversed(frames) if frame.filename == file),
        frames[-1] if frames else None,
    )
    place = f" ({frame.filename.rpartition('/')[2]}:{frame.lineno})" if frame is not None else ""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}{place}"


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Prefixes the message of a LoadstoneError with `name`, where the stage that raises it does not
    know the model."""
    try:
        yield
    except LoadstoneError as error:
        if name in str(error):
            raise
        if isinstance(error, UnsupportedError) and error.refusal is not None:
            raise type(error)(replace(error.refusal, model=name)) from error
        raise type(error)(f"{name}: {error}") from error
