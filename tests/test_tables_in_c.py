# SPDX-License-Identifier: Apache-2.0
"""Tables that stand in Python and in C, or in Python and in files: the same words, and all of them.

Opcodes, statuses, faults, register blocks, host operators, boards, devices and their timing.
"""

from __future__ import annotations

import re

import pytest

from loadstone.commands import export
from loadstone.commands.exported_accelerators import REGISTER_BLOCKS
from loadstone.vta.device.hw_config import device_names, load_config
from loadstone.vta.device.timing_tables import builtin_timing, table_names
from loadstone.vta.isa import registers
from loadstone.vta.isa.insn import CLASSES
from loadstone.vta.isa.spec import Capability
from tests.conftest import ROOT

PACKAGE = ROOT / "python" / "loadstone"


def test_register_blocks_are_known_everywhere_they_are_chosen() -> None:
    from loadstone.vta.device import hw_config
    from loadstone.vta.simulator import simd_device

    blocks = set(registers.BLOCKS)
    names = {name if name == "native" else f"vta-{name}" for name in blocks}
    for table in (
        hw_config._REGISTER_BLOCKS,
        simd_device._PAGE_BYTES,
        REGISTER_BLOCKS,
    ):
        assert set(table) == names
    for name, (_, size) in hw_config._REGISTER_BLOCKS.items():
        assert simd_device._PAGE_BYTES[name] == size
        assert (ROOT / "driver" / REGISTER_BLOCKS[name][1]).is_file()


def c_names(file: str, prefix: str) -> list[str]:
    """Names of a C file that begin with a prefix, without it, in their order."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(rf"\b{prefix}(\w+)", text)))


def c_values(file: str, prefix: str) -> dict[str, int]:
    """Enumerators and their values, where the file writes them."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return {name: int(value) for name, value in re.findall(rf"\b{prefix}(\w+) = (-?\d+)", text)}


def test_host_operators_have_their_opcodes_in_c() -> None:
    from loadstone.artifact.host_operators import HostOpcode
    from loadstone.artifact.program_step import PROGRAM_STEP

    steps = c_names("runtime/format.h", "LDS_STEP_")
    *others, external = [opcode.name for opcode in HostOpcode]
    assert (steps[0], PROGRAM_STEP) == ("PROGRAM", 0)
    assert steps[1:] == [*others, external]
    assert [opcode.value for opcode in HostOpcode] == [*range(1, len(HostOpcode)), 255]
    rules = [
        name
        for file in ("runtime/steps.c", "runtime/steps_real.c", "runtime/steps_rows.c")
        for name in c_names(file, "LDS_STEP_")
    ]
    assert set(rules) | {"ARGMAX"} == set(steps)  # the last of its switch
    for set_of_all in ("runtime/operators_all.c", "runtime/include/lds_operators.h"):
        text = (ROOT / set_of_all).read_text(encoding="utf-8").rpartition("lds_operator_set")[2]
        functions = [f"lds_{name.lower()}" for name in others]
        assert [f for f in re.findall(r"\blds_\w+", text) if f in functions] == functions


def test_host_operators_have_their_line_in_the_format() -> None:
    """Number, name, tensors and parameters: runtime/FORMAT.md, and what the reader checks."""
    from loadstone.artifact.host_operators import OPERATORS as SPECS

    page = (ROOT / "runtime/FORMAT.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) (\w+) \| (.*?) ?-> (.*?) \| (.*?) \|", page, re.MULTILINE)
    told = {
        (int(number), name): (sources.count(",") + bool(sources), parameters_of(parameters))
        for number, name, sources, _, parameters in rows
        if name != "external"  # any number of tensors; two strings
    }
    assert told == {
        (opcode.value, opcode.name.lower()): (spec.inputs, spec.parameters)
        for opcode, spec in SPECS.items()
        if opcode.name != "EXTERNAL"
    }


def parameters_of(cell: str) -> tuple[str, ...]:
    """`extent[6]` stands for extent_0 to extent_5; a range or a note may follow a name."""
    names: list[str] = []
    for name, count in re.findall(r"(?:^|, )([a-z_]+)(?:\[(\d)\])?", cell):
        names += [f"{name}_{k}" for k in range(int(count))] if count else [name]
    return tuple(names)


def test_statuses_of_the_validators_are_c_s() -> None:
    from tests.vta.validator.validate import RULES, STATUS

    statuses = c_values("runtime/include/loadstone.h", "LDS_ERR_")
    del statuses["ACCELERATOR"]  # a program of other instructions
    del statuses["RESIDUE"]  # V17, of shared devices: runtime/isolated.c
    assert {name: value for name, value in statuses.items() if -30 < value <= -20} == STATUS
    assert set(RULES.values()) <= set(STATUS)
    page = (ROOT / "runtime/VALIDATION.md").read_text(encoding="utf-8")
    stated = set(re.findall(r"^\|? ?\**(V\d+)\b", page, re.MULTILINE))
    assert set(RULES) | {"V0", "V17"} == stated  # V0: that the device is the program's


def test_faults_of_the_simulator_are_c_s() -> None:
    from loadstone.vta.simulator.simd_device import FAULTS

    names = c_values("hw_sim/include/lds_simdev.h", "LDS_FAULT_")
    assert names == {
        "NONE": 0,
        **{name.replace("-", "_").upper(): k for k, name in enumerate(FAULTS, start=1)},
    }


def test_kernels_of_the_simulator_are_c_s() -> None:
    from loadstone.vta.simulator.sim import KERNELS

    names = [name.lower() for name in c_names("hw_sim/include/lds_sim.h", "LDS_SIM_KERNELS_")]
    assert names == list(KERNELS)


#: What the simulator and the validator do with each opcode stands in a switch over the names of
#: lds_isa.h. FINISH is the default in those that it is left out of.
SWITCHES = {
    "hw_sim/run.cc": {"FINISH"},
    "hw_sim/program.cc": {"FINISH"},
    "hw_sim/device_timing.cc": set(),
    "runtime/validate.c": set(),
}


@pytest.mark.parametrize("file", SWITCHES)
def test_every_opcode_is_named_where_c_acts_on_it(file: str) -> None:
    named = set(c_names(file, "LDS_OPCODE_"))
    assert named | SWITCHES[file] == {opcode.name for opcode in CLASSES}


def test_every_alu_operation_is_named_where_the_simulator_computes_it() -> None:
    from loadstone.vta.isa.spec import AluOp

    lanes = set(c_names("hw_sim/lanes.inc", "LDS_ALU_"))
    assert lanes == {op.name for op in AluOp} - {"RQ"}  # RQ: a function of its own
    assert "RQ" in c_names("hw_sim/exec_compute.cc", "LDS_ALU_")


#: Constants that only devices with a capability have.
ONLY_WITH = {
    "store_rq_cycles": Capability.STORE_REQUANTIZE,
    "depthwise_overhead_cycles": Capability.DEPTHWISE,
    "store_inp_cycles": Capability.STORE_INP,
}


def test_every_device_has_a_timing_table_and_every_table_a_device() -> None:
    constants = c_names("hw_sim/constants.h", r"X\(")
    used: set[str] = set()
    for name in device_names():
        text = (PACKAGE / f"vta/devices/{name}.json").read_text(encoding="utf-8")
        used |= {table for table in table_names() if f'"{table}"' in text}
        config = load_config(name)
        lacking = {c for c, needed in ONLY_WITH.items() if not config.has(needed)}
        assert set(constants) - lacking <= set(config.timing) <= set(constants), name
    assert used | bases(table_names()) == set(table_names())
    assert set(constants) == set().union(*map(builtin_timing, table_names()))
    for table in table_names():
        assert set(constants) - set(builtin_timing(table)) <= ONLY_WITH.keys()


def bases(names: list[str]) -> set[str]:
    texts = [(PACKAGE / f"vta/devices/timing/{n}.json").read_text(encoding="utf-8") for n in names]
    return {base for text in texts for base in re.findall(r'"base": "([\w-]+)"', text)}


def test_every_timing_constant_is_explained() -> None:
    page = (ROOT / "docs/timing.md").read_text(encoding="utf-8")
    assert [c for c in c_names("hw_sim/constants.h", r"X\(") if c not in page] == []


def test_every_board_has_its_folder_and_files() -> None:
    built_by = ("Makefile", "CMakeLists.txt", "library.properties")
    folders = {
        path.name
        for path in (PACKAGE / "boards").iterdir()
        if any((path / file).is_file() for file in built_by)
    }
    assert set(export.BOARDS) == folders
    for board, files in export.BOARDS.items():
        missing = [file for file in files if not (ROOT / "driver" / file).is_file()]
        assert missing == [], board
