# SPDX-License-Identifier: Apache-2.0
"""Calls of a back end: its accelerator is TVM's current target, and an exception of a plug-in
becomes one line.

In:   a back end, and a description of the request.
Out:  `within`: a context in which `tvm.target.Target.current()` is the back end's target.
Next: compiler.py, partition/eager.py, partition/network_pass.py and conformance/check.py ask back
      ends inside it.

    Target.current()                                    {"kind": "ext_dev", "device": "npu",
                                                        "model": '{"lanes": 8}', "host": {...}}
    json.loads(Target.current().attrs["model"])         the accelerator's attributes, typed

An ext_dev target of TVM has no attributes of ours, and takes none from Python; its `model` is any
text.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from loadstone.backend.interface import Backend, Pattern, Phase, Refusal, Taken
from loadstone.backend.rounding import StatedRounding
from loadstone.backend.rounding_bound import bound_of
from loadstone.backend.target_spec import ALIASES, TargetSpec, parse_target
from loadstone.errors import BackendError, LoadstoneError, VerificationError, cause_of
from loadstone.graph import Operator
from loadstone.relax.targets import accelerator_target, register_target_tag

__all__ = [
    "answer",
    "apply_passes",
    "file_of",
    "patterns_of",
    "register_tag",
    "rounding_of",
    "within",
]


@contextmanager
def within(backend: Backend, what: str) -> Iterator[None]:
    """what: the request, for the message: "predicate of conv2d on 'layer1'".

    Raises BackendError for any exception of a plug-in that is not a LoadstoneError; errors of our
    own back ends keep their tracebacks.
    """
    target = accelerator_target(
        str(backend.attributes.get("device", backend.name)), backend.attributes, backend.host
    )
    try:
        with target:
            yield
    except (LoadstoneError, VerificationError):
        raise
    except (Exception, SystemExit) as error:
        if type(backend).__module__.startswith("loadstone."):
            raise
        file = file_of(type(backend))
        raise BackendError(
            f"back end {backend.name} in {file}: {what}: {cause_of(error, file)}"
        ) from error


def file_of(backend: type[Backend]) -> str:
    """The file that defines a back end; its module where there is no file."""
    try:
        return inspect.getfile(backend)
    except (OSError, TypeError):
        return backend.__module__


def patterns_of(backend: Backend) -> list[Pattern]:
    """Its pattern table. Raises BackendError for a result that is not a table of Patterns."""
    with within(backend, "patterns"):
        patterns = list(backend.patterns())
        for pattern in patterns:
            if not isinstance(pattern, Pattern):
                raise TypeError(
                    f"the table holds {pattern!r}, no Pattern: write offered(FORM, "
                    "predicate) or Pattern(NAME, FORM, predicate)"
                )
    return patterns


def answer(backend: Backend, pattern: Pattern, operator: Any) -> Taken | Refusal:
    """A predicate's answer for an operator; None becomes a Taken without a lowering. What it takes
    and the device rounds in a way of its own (Backend.rounding) is taken as the request and the
    bound of that rounding allow. Raises BackendError for any other type."""
    with within(backend, f"predicate of {pattern.name} on {operator.name!r}"):
        said = pattern.predicate(operator)
        said = Taken() if said is None else said
        if not isinstance(said, Taken | Refusal):
            raise TypeError(
                f"it returned {said!r}: a predicate says None or a Taken to take the operator, or "
                "a Refusal"
            )
    return said if isinstance(said, Refusal) else _as_rounded(backend, operator, said)


def rounding_of(backend: Backend, operator: Operator) -> StatedRounding | None:
    """How the device rounds an operator, where that is not the framework's way. Raises BackendError
    for what is no StatedRounding."""
    with within(backend, f"rounding of {operator.name!r}"):
        stated = backend.rounding(operator)
        if not isinstance(stated, StatedRounding | None):
            raise TypeError(f"it returned {stated!r}: a StatedRounding, or None")
    return stated


def _as_rounded(backend: Backend, operator: Operator, said: Taken) -> Taken | Refusal:
    """The back end's yes, with the bound of its rounding; or why that is no yes."""
    stated = rounding_of(backend, operator)
    if stated is None:
        return said
    with within(backend, f"rounding of {operator.name!r}"):
        bound = bound_of(operator, stated)
    if bound.largest > stated.bound:
        return Refusal(
            f"its rounding is {bound}, and the back end says at most {stated.bound}",
            f"StatedRounding(..., bound={bound.largest}), or a requantizer of more bits",
        )
    if bound.is_exact:
        return replace(said, how=f"rounded exactly, {bound.how}")
    if not backend.request.is_near:
        return Refusal(f"its rounding is not the framework's: {bound}", "--rounding near")
    return replace(said, how=f"rounded near: {bound} (stated: at most {stated.bound})")


def apply_passes(backends: Sequence[Backend], phase: Phase, subject: Any) -> Any:
    """The module or graph after the passes of a phase, in the target's order."""
    for backend in backends:
        with within(backend, f"passes of phase {phase.value}"):
            for transform in backend.passes(phase):
                made = transform(subject)
                if not isinstance(made, type(subject)):
                    raise TypeError(
                        f"a pass of phase {phase.value} gave {type(made).__name__}, not "
                        f"{type(subject).__name__}"
                    )
                subject = made
    return subject


def register_tag(name: str, spec: TargetSpec) -> None:
    """Registers a composite with TVM under a name: `tvm.target.Target("pynq-z2")`. A later
    registration of a name replaces an earlier one."""
    host = {"kind": spec.host.name, **spec.host.attributes}
    devices = [
        {"kind": "ext_dev", "device": entry.name, "model": _model(entry.attributes)}
        for entry in spec.accelerators
    ]
    register_target_tag(
        name,
        {**devices[0], "host": host}
        if len(devices) == 1
        else {"kind": "composite", "devices": devices, "host": host},
    )


def _model(attributes: Mapping[str, str]) -> str:
    return json.dumps(dict(attributes))


for _alias in ALIASES:
    register_tag(_alias, parse_target(_alias))
