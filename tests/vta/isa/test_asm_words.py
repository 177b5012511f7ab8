# SPDX-License-Identifier: Apache-2.0
"""vta/isa/asm_words.py: each word means one thing, in both directions."""

from __future__ import annotations

from loadstone.vta.isa.asm_words import ALU_SIGNS, NEIGHBOURS, NOOPS, PADS
from loadstone.vta.isa.insn import Load, Store, stage_of
from loadstone.vta.isa.spec import TOKEN_FLAGS, Stage


def test_signs_are_words_of_their_own() -> None:
    signs = list(ALU_SIGNS.values())
    assert len(set(signs)) == len(signs)
    assert all(sign.endswith("=") and len(sign) > 1 for sign in signs)
    # No sign begins another: text is read from left to right.
    assert not [(a, b) for a in signs for b in signs if a != b and b.startswith(a)]


def test_neighbours_have_the_flags_that_stand_in_instructions() -> None:
    assert NEIGHBOURS == {
        Stage.LOAD: {"compute": ("pop_next", "push_next")},
        Stage.COMPUTE: {"load": ("pop_prev", "push_prev"), "store": ("pop_next", "push_next")},
        Stage.STORE: {"compute": ("pop_prev", "push_prev")},
    }
    flags = {flag for words in NEIGHBOURS.values() for pair in words.values() for flag in pair}
    assert flags == set(TOKEN_FLAGS)


def test_pads_and_noops_are_instructions() -> None:
    assert set(PADS.values()) <= {field.name for field in Load.SPEC.fields}
    assert {name: stage_of(insn).name.lower() for name, insn in NOOPS.items()} == {
        stage: stage for stage in ("load", "compute", "store")
    }
    assert all(isinstance(insn, Load | Store) and insn.x_size == 0 for insn in NOOPS.values())
