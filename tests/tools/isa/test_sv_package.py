# SPDX-License-Identifier: Apache-2.0
"""The package for the hardware: each field where spec.layout has it, for every device."""

from __future__ import annotations

import re

import pytest

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa import registers
from loadstone.vta.isa.spec import MICRO_OPS, AluOp, Opcode, layout
from tests.random_insns import CONFIGS
from tools.isa.c_names import distinct, own_fields, struct_of
from tools.isa.sv_package import package


def evaluated(config: HwConfig) -> dict[str, int]:
    """Parameters that are numbers, for the widths of one device."""
    values = {f"lds_config_pkg::{name.upper()}": width for name, width in config.widths.items()}
    values["lds_config_pkg::CAPABILITIES"] = int(config.capabilities)
    for name, text in re.findall(
        r"localparam (?:int|logic \[\d+:0\]) (\w+) =\s+([^;]+);", package()
    ):
        if match := re.fullmatch(r"(\d+'h)([0-9A-F]+)", text):
            values[name] = int(match[2], 16)
            continue
        expression = " ".join(re.sub(r"\d+'s?d", "", text).split())
        if "?" in expression:  # a > b ? a : b
            condition, _, rest = expression.partition("?")
            yes, _, no = rest.partition(":" if "::" not in rest else " : ")
            expression = f"({yes}) if ({condition}) else ({no})"
        for known in sorted(values, key=len, reverse=True):
            expression = expression.replace(known, str(values[known]))
        values[name] = int(eval(expression))
    return values


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_fields_stand_where_the_codec_has_them(config: HwConfig) -> None:
    values = evaluated(config)
    for insn in distinct():
        places = layout(insn.fields, config.widths)
        mask = 0
        for field in own_fields(insn):
            place, name = places[field.name], f"{struct_of(insn).upper()}_{field.name.upper()}"
            assert (values[name + "_AT"], values[name + "_BITS"]) == (place.start, place.width)
            mask |= (1 << place.width) - 1 << place.start
        if own_fields(insn):
            assert values[f"{struct_of(insn).upper()}_OWN_BITS"] == mask
    for name, place in layout(MICRO_OPS, config.widths).items():
        assert values[f"UOP_{name.upper()}_AT"] == place.start


def test_values_and_registers_are_the_specs() -> None:
    values = evaluated(CONFIGS[0])
    assert values["OPCODE_ALU"] == Opcode.ALU
    assert values["ALU_RQ"] == AluOp.RQ
    for register in registers.NATIVE:
        assert values[f"REG_{register.name}"] == register.offset
    for name, (code, _) in registers.ERRORS.items():
        assert values[f"ERROR_{name}"] == code
