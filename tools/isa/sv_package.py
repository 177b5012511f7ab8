# SPDX-License-Identifier: Apache-2.0
"""The text of hw_sim/rtl/lds_isa_pkg.sv: the instruction set and the registers for the hardware.

In:   vta/isa/spec.py, vta/isa/registers.py.
Out:  `package`: values, places of fields, offsets of registers. A width that depends on the device
      is a parameter of lds_config_pkg, which vta/device/rtl_package.py writes for one device.
Next: __main__.py writes it; every file of hw_sim/rtl imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, IntFlag

from loadstone.vta.isa import registers, spec
from loadstone.vta.isa.spec import INSTRUCTIONS, MICRO_OPS, Field
from loadstone.vta.isa.values import GROUP_WEIGHTS, PLANE_WEIGHTS
from tools.isa.c_names import BANNER, distinct, own_fields, struct_of

__all__ = ["package"]

_ENUMERATIONS: tuple[tuple[type[IntEnum] | type[IntFlag], str, int], ...] = (
    (spec.Opcode, "OPCODE", 3),
    (spec.Memory, "MEMORY", 3),
    (spec.AluOp, "ALU", 3),
    (spec.Stage, "STAGE", 3),
    (spec.ConfigRegister, "CONFIG", 6),
    (spec.Rounding, "ROUNDING", 2),
)


def package() -> str:
    """The SystemVerilog package."""
    lines = [
        f"// {BANNER}",
        "//",
        "// In:   the widths of one device, lds_config_pkg.",
        "// Out:  the values of fields, their first bits (_AT) and widths (_BITS), registers.",
        "// Next: every module of this folder.",
        "// SPDX-License-Identifier: Apache-2.0",
        "package lds_isa_pkg;",
        _parameter("INSN_BITS", 8 * spec.INSN_BYTES),
        _parameter("INSN_BYTES", spec.INSN_BYTES),
        _parameter("MAX_TOKENS", spec.MAX_TOKENS),
        _parameter("MAX_REGIONS", spec.MAX_REGIONS),
        _parameter("WINDOW_COLUMNS", spec.WINDOW_COLUMNS),
        _parameter("MOST_WINDOW_ROWS", spec.WINDOW_ROWS),
        _parameter("WINDOW_PITCH", spec.WINDOW_PITCH),
        _parameter("WIDE_FACTOR", spec.WIDE_FACTOR),
        _parameter("GROUP_WEIGHTS", GROUP_WEIGHTS),
        _parameter("PLANE_WEIGHTS", PLANE_WEIGHTS),
    ]
    for cls, prefix, width in _ENUMERATIONS:
        lines += ["", f"  // {prefix}"]
        lines += [
            f"  localparam logic [{width - 1}:0] {prefix}_{member.name} = {width}'d{int(member)};"
            for member in cls
        ]
        lines.append(_parameter(f"{prefix}_VALUES", max(map(int, cls)) + 1))
    lines += ["", "  // Capabilities: bits of lds_config_pkg::CAPABILITIES."]
    lines += [
        f"  localparam bit CAN_{member.name} = (lds_config_pkg::CAPABILITIES & {int(member)}) != 0;"
        for member in spec.Capability
    ]
    lines += ["", "  // What the stages' registers hold when a program starts."]
    lines += [
        f"  localparam logic [31:0] DEFAULT_{register.name} = {_signed(value)};"
        for register, value in spec.CONFIG_DEFAULTS.items()
    ]
    lines += ["", "  // Opcode and token flags"]
    lines += _places(INSTRUCTIONS[0].fields[:5], "")
    for insn in distinct():
        prefix = struct_of(insn).upper() + "_"
        lines += ["", f"  // {prefix[:-1]}"]
        lines += _places(insn.fields, prefix, skip=5)
        lines += [_mask(prefix, [f.name for f in own_fields(insn)])]
    lines += ["", "  // Micro-ops", *_places(MICRO_OPS, "UOP_")]
    lines += ["", "  // The native page of registers: byte offsets.", *_registers()]
    return "\n".join([*lines, "endpackage"]) + "\n"


def _parameter(name: str, value: int | str) -> str:
    return f"  localparam int {name} = {value};"


def _signed(value: int) -> str:
    return f"-32'sd{-value}" if value < 0 else f"32'd{value}"


def _places(fields: Iterable[Field], prefix: str, skip: int = 0) -> list[str]:
    """_AT and _BITS of each field, in the order of the bits."""
    lines, at = [], "0"
    for number, field in enumerate(fields):
        if field.at is not None:
            at = str(field.at)
        name = prefix + field.name.upper() if number >= skip else field.name.upper()
        if number >= skip:
            lines.append(_parameter(f"{name}_AT", at))
            lines.append(_parameter(f"{name}_BITS", _width(field.width)))
        at = f"{name}_AT + {name}_BITS"
    return lines


def _width(width: int | str) -> str:
    """A field's width: a number, or what it is in terms of the device's widths."""

    def term(text: str) -> str:
        return text if text.isdigit() else f"lds_config_pkg::{text.upper()}"

    if isinstance(width, int):
        return str(width)
    if width.startswith("max("):
        one, other = (term(name) for name in width[4:-1].split(","))
        return f"{one} > {other} ? {one} : {other}"
    return " + ".join(term(part) for part in width.split("+"))


def _mask(prefix: str, names: list[str]) -> str:
    """The bits that an instruction has beyond opcode and flags: all others are reserved."""
    terms = [
        f"((128'd1 << {prefix}{name.upper()}_BITS) - 128'd1) << {prefix}{name.upper()}_AT"
        for name in names
    ]
    value = " |\n      ".join(terms) if terms else "128'd0"
    return f"  localparam logic [127:0] {prefix}OWN_BITS =\n      {value};"


def _registers() -> list[str]:
    lines = [
        f"  localparam logic [11:0] REG_{r.name} = 12'h{r.offset:03X};" for r in registers.NATIVE
    ]
    numbers: Mapping[str, int] = {**registers.REGISTER_VALUES, **registers.BITS}
    wanted = ("NATIVE_", "CTRL_", "IRQ_", "REGION_")
    lines += [
        f"  localparam logic [31:0] {name} = 32'h{value:X};"
        for name, value in numbers.items()
        if name.startswith(wanted)
    ]
    lines += [f"  localparam logic [2:0] STATE_{n} = 3'd{v};" for n, v in registers.STATES.items()]
    lines += [
        f"  localparam logic [3:0] ERROR_{n} = 4'd{v};" for n, (v, _) in registers.ERRORS.items()
    ]
    return lines
