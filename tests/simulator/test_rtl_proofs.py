"""Proofs of the hardware by induction (yosys, z3): no token and no beat is lost, whatever comes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.board.tools import need

#: Module -> parameters that are smaller than the device's: the argument is the same for all.
SMALL = {"lds_tokens": "-set MOST 5"}


@pytest.mark.parametrize("module", list(SMALL))
def test_no_state_breaks_an_assertion(module: str, root: Path, tmp_path: Path) -> None:
    status = prove(root, module, tmp_path, "")
    assert "Status: PASSED" in status, status


def test_a_queue_that_loses_tokens_is_found(root: Path, tmp_path: Path) -> None:
    """The same proof of a queue whose count forgets a push that comes with a pop."""
    status = prove(root, "lds_tokens", tmp_path, "else if (pop && !push)", "else if (pop)")
    assert "Status: FAILED" in status, status


def prove(root: Path, module: str, folder: Path, old: str, new: str = "") -> str:
    """What yosys-smtbmc says of a module, with `old` replaced."""
    need("yosys", "yosys")
    need("z3", "z3")
    rtl = root / "hw_sim/rtl"
    source = (rtl / f"{module}.sv").read_text()
    assert old in source
    source = source.replace(old, new) if old else source
    proof = (rtl / f"proofs/{module}.svh").read_text()
    text = source.replace(f'`include "proofs/{module}.svh"', proof)
    (folder / "m.sv").write_text(text)
    script = (
        f"read_verilog -sv -formal {folder}/m.sv; chparam {SMALL[module]} {module}; "
        f"prep -top {module}; memory_map; opt -full; async2sync; dffunmap; "
        f"write_smt2 -wires {folder}/m.smt2"
    )
    subprocess.run(["yosys", "-q", "-p", script], check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        ["yosys-smtbmc", "-s", "z3", "-i", "-t", "4", str(folder / "m.smt2")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout
