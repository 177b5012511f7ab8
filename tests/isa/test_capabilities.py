# SPDX-License-Identifier: Apache-2.0
"""isa/capabilities.py: a device that lacks some refuses what needs them, everywhere alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import ArtifactError, ConfigError, EncodingError
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import Accelerator, register_accelerator
from loadstone.isa.c_meaning import meaning_header
from loadstone.isa.c_table import c_header, c_table
from loadstone.isa.codec import TableInsn, decode, encode, encode_columns
from loadstone.isa.machine import TableMachine
from loadstone.isa.page import page
from loadstone.isa.state import Dram, MachineFault
from loadstone.isa.table import Bits, InstructionForm, InstructionTable
from loadstone.isa.text import assemble
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import table_of
from tests.artifact.test_program_step import program_model
from tests.isa.tables import NPU, NPU_MEANING

_COPY, _STORE, _WORK, _END = NPU.forms
_MODE, *_OTHERS = _WORK.fields
#: A family: `store` needs one capability, `relu` and `gain` of `work` another.
FAMILY = replace(
    NPU,
    forms=(
        _COPY,
        replace(_STORE, needs="writes"),
        replace(
            _WORK,
            fields=(
                replace(_MODE, needs="activation", needs_from=2),
                replace(_OTHERS[0], needs="activation"),
                *_OTHERS[1:],
            ),
        ),
        _END,
    ),
)
SMALL = FAMILY.having()
STORE = TableInsn("store", {"rows": 4})
RELU, GAIN, PLAIN = (TableInsn("work", f) for f in ({"mode": 2}, {"gain": -1}, {"mode": 1}))


def test_a_device_with_all_is_the_table_as_it_was() -> None:
    whole = FAMILY.having("writes", "activation")
    assert (whole.forms, whole.lacks) == (FAMILY.forms, ())
    assert whole.fingerprint == NPU.fingerprint
    assert SMALL.fingerprint != NPU.fingerprint
    assert [whole.has(name) for name in ("writes", "activation")] == [True, True]
    assert FAMILY.having("writes").has("writes")
    assert not FAMILY.having("writes").has("activation")


def test_what_needs_another_is_refused_with_its_name() -> None:
    has = r"has no instruction 'store'; that needs capability writes, which the device lacks"
    limits = r"mode=2 is unknown; known are add 0, max 1; that needs capability activation"
    for insn, said in (
        (STORE, has),
        (RELU, limits),
        (GAIN, r"gain=-1 is not in \[0, 0\]; that needs"),
    ):
        assert encode(FAMILY, [insn])
        with pytest.raises(EncodingError, match=said):
            encode(SMALL, [insn])
    with pytest.raises(EncodingError, match=limits):
        encode_columns(SMALL, "work", {"mode": np.array([0, 2])})
    with pytest.raises(Exception, match=limits):
        assemble(SMALL, "work mode=relu")
    for insn in (STORE, RELU, GAIN):
        with pytest.raises(EncodingError):
            decode(SMALL, encode(FAMILY, [insn]))
    assert encode(SMALL, [PLAIN]) == encode(NPU, [PLAIN])


@pytest.mark.parametrize("insn", [STORE, RELU, GAIN])
def test_the_simulator_faults(insn: TableInsn) -> None:
    machine = TableMachine(Accelerator("npu", SMALL, NPU_MEANING), Dram([]))
    with pytest.raises(MachineFault):
        machine.run(0, 1, encode(FAMILY, [insn]))


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[[InstructionTable], None]:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    return lambda t: register_accelerator("npu", lambda _: Accelerator("npu", t, NPU_MEANING))


@pytest.mark.parametrize(
    ("insn", "having"), [(PLAIN, ()), (RELU, ("activation",)), (RELU, ()), (GAIN, ()), (STORE, ())]
)
def test_the_validator_of_the_runtime(
    offered: Callable[[InstructionTable], None], insn: TableInsn, having: tuple[str, ...]
) -> None:
    table = FAMILY.having(*having)
    offered(table)
    model = program_model(encode(NPU, [insn]), ())
    step = replace(model.programs[0], insn_count=1, layers=())
    other = replace(model.devices[1], fingerprint=table.fingerprint)
    model = replace(model, steps=(step,), devices=(model.devices[0], other))
    with device.open("sim") as opened:
        if insn is PLAIN or having:
            opened.load(model).close()
        else:
            with pytest.raises(ArtifactError, match="does not know"):
                opened.load(model)


def test_texts_say_what_is_there() -> None:
    text = page(SMALL)
    assert "| this device lacks | for want of |\n| --- | --- |\n| store | writes |" in text
    assert "## store" not in text
    assert "0 add, 1 max |" in text
    assert "Needs capability writes." in page(FAMILY)
    assert "From 2 on: capability activation." in page(FAMILY)
    for header in (c_header, meaning_header):
        assert "#define NPU_HAS_WRITES 0\n" in header(SMALL)
        assert "#define NPU_HAS_WRITES 1\n" in header(FAMILY)
    assert c_header(NPU).count("_HAS_") == 0
    assert '"store"' not in c_table(SMALL)


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="'fast': not one that something needs: activation, wr"):
        FAMILY.having("fast")
    with pytest.raises(ConfigError, match="needs_from 3: not 1 to 2"):
        table(replace(_MODE, needs="activation", needs_from=3))
    with pytest.raises(ConfigError, match="not of an address: say it of the instruction"):
        table(Bits("x", 32, address=True, needs="activation"))


def table(field: Bits) -> InstructionTable:
    return InstructionTable("one", (InstructionForm("a", 1, (field,)),))


def test_vtas_table_says_its_capabilities() -> None:
    vta = table_of(load_config("vtaq-1x16x16").widths)
    assert vta.has("regions")
    assert not vta.having("regions").has("config")
    assert "config" not in vta.having("regions").by_name
