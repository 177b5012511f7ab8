# SPDX-License-Identifier: Apache-2.0
"""The library of the hardware: what is missing is one line; a device is compiled once."""

from __future__ import annotations

import shutil

import pytest

from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator import rtl_build

TINY = load_config("vtaq-tiny")


def test_a_tool_that_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "verilator" else tool)
    with pytest.raises(LoadstoneError, match="verilator is missing: apt-get install verilator"):
        rtl_build.library(TINY)


def test_packages_are_read_before_the_modules_that_use_them() -> None:
    names = [path.name for path in rtl_build.sources()]
    assert names[:2] == ["lds_isa_pkg.sv", "lds_types_pkg.sv"]
    assert "lds_device.sv" in names[2:]


@pytest.mark.usefixtures("verilator")
def test_a_device_is_compiled_once() -> None:
    built = rtl_build.library(TINY)
    changed = built.stat().st_mtime_ns
    assert rtl_build.library(TINY) == built
    assert built.stat().st_mtime_ns == changed
