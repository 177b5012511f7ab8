# SPDX-License-Identifier: Apache-2.0
"""backend/scope.py and the phases: what a plug-in observes, where it stands, and what its mistakes
read like."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from loadstone.backend.interface import (
    Attribute,
    Backend,
    External,
    Pattern,
    Phase,
    Refusal,
    Segment,
    offered,
)
from loadstone.backend.region import ExternalRegion, LoweredRegion
from loadstone.backend.scope import register_tag, within
from loadstone.backend.target_spec import ALIASES, parse_target
from loadstone.backend.template.backend import MyNpu
from loadstone.errors import BackendError
from loadstone.vta.backend import VtaBackend
from loadstone.vta.device.hw_config import load_config
from tests.observed import compiled, right

SEEN: list[tuple[str, Any]] = []
#: Attributes of the current target, at each of them.
MODELS: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()
    MODELS.clear()


def note(what: str, subject: Any = None) -> None:
    """What was asked, and whose target TVM had then."""
    import tvm

    target = tvm.target.Target.current(allow_none=True)
    SEEN.append((what, subject))
    assert target is not None
    assert target.kind.name == "ext_dev"
    MODELS.append(json.loads(str(target.attrs["model"])))
    assert str(target.host.attrs["mcpu"]) == "cortex-a53"


def no_target() -> bool:
    """Whether TVM is as it was before a back end was asked."""
    import tvm

    return tvm.target.Target.current(allow_none=True) is None


class Observer(MyNpu):
    """The template, telling of everything that it is asked."""

    name: ClassVar[str] = "observer"

    def patterns(self) -> Sequence[Pattern]:
        note("patterns")
        return super().patterns()

    def accepts(self, operator: Any) -> Refusal | None:
        note("predicate", operator)
        return super().accepts(operator)

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        def observed(subject: Any) -> Any:
            note(phase.value, subject)
            return subject

        return (observed,)

    def lower(self, segment: Segment) -> ExternalRegion:
        note("lower", segment)
        return super().lower(segment)


class VtaObserver(VtaBackend):
    """VTA-Q, with passes on its TensorIR."""

    name: ClassVar[str] = "vta-observer"
    target_attributes: ClassVar[Sequence[Attribute]] = (Attribute("clock_mhz", 7, "clock"),)

    def __init__(self, clock_mhz: int = 7) -> None:
        super().__init__(load_config("vtaq-1x16x16"))

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        return {
            Phase.TENSOR_IR: (see_blocks,),
            Phase.LOOPS: (see_loops,),
            Phase.COPIES: (see_copies,),
        }.get(phase, ())

    def lower(self, segment: Segment) -> Any:
        region = super().lower(segment)

        class Built(LoweredRegion):
            """The region, telling when it makes its program."""

            name, operators = region.name, region.operators
            aliases, constants = region.aliases, region.constants
            layouts = region.layouts

            def build(self, addresses: Any, uops: Any) -> Any:
                note("build", segment.name)
                return region.build(addresses, uops)

        return Built()


def see_blocks(module: Any) -> Any:
    note("tensor_ir", str(module["main"].script()))
    return module


def see_loops(module: Any) -> Any:
    note("loops", str(module["main"].script()))
    return module


def see_copies(module: Any) -> Any:
    note("copies", str(module["main"].script()))
    return module


HOST = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53"


def test_a_plugin_is_asked_with_its_own_target_current(tmp_path: Path) -> None:
    made = compiled(tmp_path, f"observer -max_channels=77,vtaq-tiny,{HOST}", Observer)
    assert right(made)
    seen = [what for what, _ in SEEN]
    assert [what for what in seen if what != "predicate"] == [
        "relax",
        "patterns",
        "composite",
        "graph",
        "lower",
    ]
    assert seen.count("predicate") == 2
    assert all(model == {"max_channels": 77} for model in MODELS)
    assert no_target()
    by_what = dict(SEEN)
    assert "R.quantize" in str(by_what["relax"].script())
    assert "observer.conv2d" not in str(by_what["relax"].script())
    assert "observer.conv2d" in str(by_what["composite"].script())
    assert [operator.kind for operator in by_what["graph"].operators] == [
        operator.kind for operator in made.graph.operators
    ]


def test_tensor_ir_passes_see_each_form_of_an_operator(tmp_path: Path) -> None:
    made = compiled(tmp_path, f"vta-observer,{HOST}", VtaObserver)
    assert right(made)
    by_what = {what: text for what, text in SEEN if text is not None}
    assert by_what["build"].startswith("vta-observer")
    assert "x_chip" not in by_what["tensor_ir"]
    assert by_what["loops"] == by_what["tensor_ir"]
    assert "x_chip" in by_what["copies"]
    assert 'scope="local.acc"' in by_what["copies"]


def broken(where: str) -> type[Backend]:
    """The template with a mistake in one place."""

    class Broken(MyNpu):
        name: ClassVar[str] = "broken"

        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            assert 1 // (where != "makes")

        def patterns(self) -> Sequence[Any]:
            assert 1 // (where != "patterns")
            return {
                "predicate": [offered("conv2d", self.refuses)],
                "true": [offered("conv2d", self.agrees)],
                "table": ["conv2d"],
            }.get(where, super().patterns())

        def refuses(self, operator: Any) -> Refusal | None:
            return Refusal(str(1 // 0), "")

        def agrees(self, operator: Any) -> Any:
            return True

        def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
            return (
                (lambda subject: 1 // 0,)
                if phase.value == where
                else (lambda subject: 3,)
                if where == f"type {phase.value}"
                else ()
            )

        def lower(self, segment: Segment) -> Any:
            assert 1 // (where != "lower")
            return 7 if where == "region" else super().lower(segment)

    return Broken


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("patterns", "patterns: ZeroDivisionError"),
        ("predicate", "predicate of conv2d on '.*': ZeroDivisionError"),
        ("lower", "lowering of .*: ZeroDivisionError"),
        ("relax", "passes of phase relax: ZeroDivisionError"),
        ("composite", "passes of phase composite: ZeroDivisionError"),
        ("graph", "passes of phase graph: ZeroDivisionError"),
        ("makes", "making it: ZeroDivisionError"),
        ("table", "patterns: TypeError: the table holds 'conv2d', no Pattern: write offered"),
        (
            "true",
            "predicate of conv2d on '.*': TypeError: it returned True: a predicate says None "
            "or a Taken to take the operator, or a Refusal",
        ),
        (
            "region",
            "lowering of .*: TypeError: lower returned 7: neither an ExternalRegion nor a "
            "LoweredRegion",
        ),
        (
            "type graph",
            "passes of phase graph: TypeError: a pass of phase graph gave int, not Graph",
        ),
    ],
)
def test_what_a_plugin_raises_is_one_line_with_its_name_file_and_cause(
    tmp_path: Path, where: str, message: str
) -> None:
    with pytest.raises(
        BackendError, match=rf"back end broken in .*test_scope\.py: {message}"
    ) as caught:
        compiled(tmp_path, "broken,vtaq-tiny", broken(where))
    assert "\n" not in str(caught.value)
    if where in ("patterns", "predicate", "lower", "relax", "makes"):
        assert "(test_scope.py:" in str(caught.value)
    assert no_target()


class Stumbling(MyNpu):
    """Whose function fails when the model runs."""

    name: ClassVar[str] = "stumbling"

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        return {"stumbling.execute": lambda arrays, attributes: [arrays[99]]}


def test_what_a_function_raises_names_step_and_file(tmp_path: Path) -> None:
    from loadstone.errors import DeviceError

    made = compiled(tmp_path, "stumbling", Stumbling)
    with pytest.raises(
        DeviceError,
        match=r"step 'stumbling_2': stumbling\.execute in .*IndexError: "
        r".*\(test_scope\.py:\d+\)",
    ):
        made.run(np.zeros((1, *made.graph.inputs[0].shape), np.int8))


def test_our_own_mistakes_stay_tracebacks() -> None:
    with pytest.raises(ZeroDivisionError), within(VtaBackend(load_config("vtaq-tiny")), "a test"):
        raise ZeroDivisionError


def test_aliases_and_composites_are_tags_of_tvm() -> None:
    import tvm

    for alias in ALIASES:
        target = tvm.target.Target(alias)
        assert str(target.attrs["device"]) == parse_target(alias).accelerators[0].name
        assert str(target.host.attrs["mcpu"]) == parse_target(alias).host.attributes["mcpu"]
    register_tag("my-soc", parse_target("npu-a -lanes=8,vtaq-tiny,llvm -mcpu=cortex-a53"))
    assert tvm.target.Target("my-soc").kind.name == "composite"
