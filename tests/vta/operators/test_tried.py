# SPDX-License-Identifier: Apache-2.0
"""vta/operators/tried.py: what the predicate lowered is what the region takes, once."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import lower_operator, rescaled, tried
from loadstone.vta.region.patterns import patterns
from tests.vta.region.test_patterns import dense

VTA = load_config("vta-pynq")


def test_what_was_tried_is_taken_once_by_its_own_device() -> None:
    op = dense()
    lowered = tried.lower_and_keep(op, VTA)
    assert tried.take(op, load_config("vta-zcu104")) is None
    assert tried.take(dense(), VTA) is None
    assert tried.take(op, VTA) is lowered
    assert tried.take(op, VTA) is None
    assert lowered.constants.keys() == lower_operator(op, VTA).constants.keys()


def test_a_predicate_keeps_what_it_tried_as_long_as_the_operator() -> None:
    op = dense()
    predicate = next(p for p in patterns(VTA) if p.name == "dense").predicate
    assert predicate(op) is None
    kept = weakref.ref(tried.lower_and_keep(op, VTA))
    del op
    gc.collect()
    tried.lower_and_keep(dense(), VTA)  # the next one clears what is gone
    gc.collect()
    assert kept() is None


def test_no_layer_is_lowered_twice(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    plain = rescaled.lower

    def counted(op: object, *arguments: object) -> object:
        names.append(op.name)  # type: ignore[attr-defined]
        return plain(op, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rescaled, "lower", counted)
    compile(shared / "models" / "mlpt_ad_int8.tflite", "vta-pynq")
    assert len(names) == len(set(names)) == 10
