# SPDX-License-Identifier: Apache-2.0
"""relax/targets.py: an accelerator as a target of TVM, there and back; hosts that LLVM has not."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import TargetError
from loadstone.relax.compat import tvm
from loadstone.relax.targets import (
    accelerator_target,
    check_llvm_host,
    register_target_tag,
    system_cpu,
    target_as_json,
)


def test_an_accelerator_is_read_back_as_it_was_written() -> None:
    made = accelerator_target("npu", {"clock_mhz": 200, "name": "a b"}, {"kind": "llvm"})
    assert target_as_json(made) == {
        "kind": "composite",
        "accelerators": [{"device": "npu", "clock_mhz": 200, "name": "a b"}],
        "host": {"kind": "llvm"},
    }
    assert accelerator_target("npu", {"clock_mhz": 200, "name": "a b"}, {"kind": "llvm"}) is made


def test_what_is_said_of_the_host_stays_and_what_is_usual_does_not() -> None:
    host = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53"}
    made = target_as_json(accelerator_target("npu", {}, host))
    assert made is not None
    assert made["host"] == host


def test_a_tag_is_a_target() -> None:
    register_target_tag("loadstone/test-tag", {"kind": "ext_dev", "device": "npu", "model": "{}"})
    made = target_as_json(tvm.target.Target("loadstone/test-tag"))
    assert made is not None
    assert made["accelerators"] == [{"device": "npu"}]


def test_other_kinds_are_refused_and_other_things_are_none() -> None:
    assert target_as_json("vtaq-tiny") is None
    with pytest.raises(TargetError, match="kind llvm names no accelerator"):
        target_as_json(tvm.target.Target({"kind": "llvm"}))
    with pytest.raises(TargetError, match="TVM refuses the host kind=no-such-kind"):
        accelerator_target("npu", {}, {"kind": "no-such-kind"})


def test_hosts_are_those_that_llvm_has() -> None:
    assert system_cpu()
    check_llvm_host("", "")
    check_llvm_host("arm64-apple-darwin", "cortex-a53")  # LLVM says aarch64
    check_llvm_host("armv7a-linux-gnueabihf", "cortex-a9")
    with pytest.raises(TargetError, match="no architecture z81; it has .*aarch64"):
        check_llvm_host("z81-linux-gnu", "")
    with pytest.raises(TargetError, match="-mcpu=cortex-a5x is none of the .* try cortex-a7"):
        check_llvm_host("aarch64-linux-gnu", "cortex-a5x")
