# SPDX-License-Identifier: Apache-2.0
"""tools/isa/isa_page.py: the reference names every value, register and capability, as a table that
Markdown reads."""

from __future__ import annotations

from loadstone.vta.isa import registers, spec
from tools.isa.isa_page import page


def test_every_value_and_state_is_named() -> None:
    text = page()
    for cls in (spec.Memory, spec.AluOp, spec.Stage, spec.ConfigRegister, spec.Rounding):
        for member in cls:
            assert f"{member.name} {member.value}" in text
    for capability in spec.Capability:
        assert f"{str(capability.name).lower()} {int(capability)}" in text
    for name, value in registers.STATES.items():
        assert f"{name} {value}" in text
    for name, (value, what) in registers.ERRORS.items():
        assert f"| {value} | {name} | {what} |" in text


def test_rows_have_as_many_cells_as_their_head() -> None:
    width = 0
    for line in page().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        width = width or cells
        assert cells == width, line


def test_what_needs_a_capability_says_so() -> None:
    text = page()
    assert "Needs capability `config`." in text
    assert "; needs `gemm_overwrite`" in text
