# SPDX-License-Identifier: Apache-2.0
"""backend/device.py: what implements Device says the same as what it stands for."""

from __future__ import annotations

import inspect
import zlib

import pytest

from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import backend_for, device_names, device_of, load_config
from loadstone.backend.device import NO_DEVICE, Device, ProgramDevice, ProgramStep
from loadstone.runtime.device import OpenedDevice
from loadstone.runtime.device import open as open_device
from loadstone.vta.isa.registers import ERRORS
from tests.sample_model import copy_model

MEMBERS = [name for name in vars(Device) if not name.startswith("_")]


@pytest.mark.parametrize("device", [*map(load_config, device_names()), NO_DEVICE])
def test_every_member_is_there(device: Device) -> None:
    assert len(MEMBERS) >= 10
    for name in MEMBERS:
        assert inspect.getattr_static(device, name) is not None, name
    configuration, zeros = device.fingerprint()[:20], device.fingerprint()[20:]
    assert device.config_hash == zlib.crc32(configuration)
    assert zeros == bytes(12)
    assert device.align_bytes & (device.align_bytes - 1) == 0


def test_error_codes_have_names_and_unknown_ones_say_so() -> None:
    config = load_config("vtaq-1x16x16")
    for name, (code, text) in ERRORS.items():
        assert config.describe_error(code) == f"{name}, {text}"
    assert config.describe_error(99) == "error 99, which this version does not know"


def test_a_device_is_found_by_name_first_and_then_by_fingerprint() -> None:
    config = load_config("vtaq-1x16x16")
    found = device_of("vtaq-1x16x16", config.fingerprint())
    assert found == config
    assert found is not None
    other = device_of("not built in", config.fingerprint())
    assert other is not None
    assert other.fingerprint() == config.fingerprint()
    assert device_of("vtaq-1x16x16", bytes(32)) is None
    assert device_of("none", NO_DEVICE.fingerprint()) is NO_DEVICE


def test_a_back_end_names_its_device() -> None:
    device = load_config("vtaq-tiny")
    backend = backend_for(device, {"clock_mhz": 33})
    assert backend.device is not None
    assert (backend.device.name, backend.device.clock_mhz) == ("vtaq-tiny", 33)


def test_an_artifact_without_device_opens_without_a_simulator() -> None:
    """There is nothing to simulate: the runtime's null device runs its steps."""
    model = copy_model()
    hosted = Artifact(
        model.name,
        (ProgramDevice.of(NO_DEVICE),),
        model.samples,
        model.regions,
        model.tensors,
        model.inputs,
        model.outputs,
        tuple(step for step in model.steps if not isinstance(step, ProgramStep)),
    )
    with open_device("sim") as opened, opened.load(hosted) as session:
        session.execute()
        assert opened.device is NO_DEVICE
        assert opened.sim is None
        assert session.counters.cycles == 0
    with OpenedDevice("sim", "", load_config("vtaq-1x16x16")) as opened:
        opened.load(model)
        assert opened.sim is not None


def test_a_configuration_is_hashed_alone_and_a_table_whole() -> None:
    """Bitstreams hold the CRC-32 of a VTA's 20 bytes."""
    vta = ProgramDevice.of(load_config("vtaq-tiny"))
    assert (vta.has_configuration, vta.config_hash) == (True, load_config("vtaq-tiny").config_hash)
    assert vta.config_hash == zlib.crc32(vta.fingerprint[:20])
    table = ProgramDevice("npu", bytes(31) + b"\1")
    assert (table.has_configuration, table.config_hash) == (False, zlib.crc32(table.fingerprint))


def test_a_program_says_how_many_instructions_it_has() -> None:
    assert len(ProgramStep("of a VTA", bytes(32))) == 2
    assert len(ProgramStep("of a table", bytes(32), insn_count=7)) == 7
