# SPDX-License-Identifier: Apache-2.0
"""artifact/content.py: each rule of runtime/FORMAT.md that a content breaks is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import (
    Artifact,
    HostStep,
    LayerRange,
    ProgramStep,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.host_step import Strided
from loadstone.backend.device import Relocation
from loadstone.errors import ArtifactError
from tests.sample_model import copy_model, with_fingerprint

Change = Callable[[Artifact], Artifact]


_ADDRESS = Relocation(0, 0, 8, 0, 0, 0)
_BESIDE = ProgramStep("beside none", bytes(16), beside=True)


def _tensor(**changes: object) -> Change:
    return lambda a: dataclasses.replace(
        a, tensors=(dataclasses.replace(a.tensors[0], **changes), *a.tensors[1:])
    )  # type: ignore[arg-type]


def _region(index: int, **changes: object) -> Change:
    def change(a: Artifact) -> Artifact:
        regions = list(a.regions)
        regions[index] = dataclasses.replace(regions[index], **changes)  # type: ignore[arg-type]
        return dataclasses.replace(a, regions=tuple(regions))

    return change


def _step(step: HostStep | ProgramStep) -> Change:
    return lambda a: dataclasses.replace(a, steps=(*a.steps, step))


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("R5", lambda a: dataclasses.replace(a, devices=())),
        ("R5", lambda a: with_fingerprint(a, b"short")),
        ("R5", lambda a: with_fingerprint(a, bytes(32))),
        ("R6", lambda a: dataclasses.replace(a, samples=0)),
        ("R8", lambda a: dataclasses.replace(a, regions=a.regions * 3)),
        ("R10", _region(0, device_writes=True)),
        ("R10", _region(1, kind=RegionKind.HOST)),
        ("R11", _region(1, size_bytes=0)),
        ("R11", _region(1, align_bytes=96)),
        ("R11", _region(1, align_bytes=32)),
        ("R12", _region(0, size_bytes=2)),
        ("R12", _region(1, data=b"x")),
        ("R14", _tensor(region=3)),
        ("R14", _tensor(shape=(1,) * 7)),
        ("R15", _tensor(offset_bytes=32)),
        ("R15", _tensor(shape=(1, 65))),
        ("R16", _tensor(shape=(1, 0))),
        ("R16", _tensor(batch_block=1)),
        ("R16", _tensor(layout=ViewLayout.BLOCKED, batch_block=1, channel_block=16)),
        ("R17", lambda a: dataclasses.replace(a, inputs=(9,))),
        ("R17", lambda a: dataclasses.replace(a, samples=2)),
        ("R17", _tensor(region=0)),
        ("R18", _step(ProgramStep("empty", b""))),
        ("R18", _step(ProgramStep("of another", bytes(16), device=1))),
        ("R18", lambda a: dataclasses.replace(a, steps=(_BESIDE,))),
        ("R18", _step(ProgramStep("addresses", bytes(16), relocations=(_ADDRESS,)))),
        ("R19", _step(HostStep("too few", host_step.HostOpcode.DEQUANTIZE, (0,), ()))),
        ("R19", _step(host_step.lookup("no table", 0, 7, 1))),
        ("R20", _step(host_step.dequantize("to int8", 0, 1))),
        ("R20", _step(host_step.copy("beyond", 0, 1, (16,), Strided((1,), 1), Strided((1,))))),
        ("R20", _step(host_step.fill("no byte", 1, 256))),
        ("R20", _step(host_step.fill("negative", 1, -1))),
        ("R21", _step(host_step.copy("onto itself", 0, 0, (16,), Strided((1,)), Strided((1,))))),
        ("R22", _step(ProgramStep("layers", bytes(16), (LayerRange("a", 0, 2),)))),
    ],
)
def test_each_rule_is_named(rule: str, change: Change) -> None:
    with pytest.raises(ArtifactError, match=rf"rule {rule} of"):
        change(copy_model()).to_bytes()
