# SPDX-License-Identifier: Apache-2.0
"""docs/examples/gemmini: its commands are those that another description of the same array writes,
and an executor that knows nothing of Loadstone computes the same from them."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import loadstone
from loadstone.analysis.compiled import Compiled
from loadstone.backend.plugins import load_plugins
from loadstone.graph import reference
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import decode, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram, DramWindow
from loadstone.runtime.accelerators import accelerators_of
from loadstone.simulator.table_profile import TableSimulator
from loadstone.simulator.table_vectors import TableVector, measure_table, table_programs
from tests.conftest import ROOT
from tests.repeat import more

EXAMPLE = ROOT / "docs/examples/gemmini"
COMMAND_BYTES = 20
#: (function, value, value) of one command.
Command: TypeAlias = tuple[int, int, int]
FLOATS = {"resnet8": "mlpt_resnet8_f32.tflite", "vww": "mlpt_vww_f32.tflite"}


def made_for(target: str, folder: Path, shared: Path, name: str) -> Compiled:
    """A float network, quantized as the back end's class says."""
    file = FLOATS[name]
    samples = np.load(shared / f"models/golden/{file}.npz")["in0"]
    plugins = load_plugins([folder], installed=False)
    assert plugins.problems == []
    options = {"scheme": "symmetric", "per_channel": False}
    path = shared / "models" / file
    return loadstone.compile(path, target, plugins=plugins, samples=samples, options=options)


def commands_of(code: bytes) -> list[Command]:
    """What the driver writes of each instruction."""
    words = np.frombuffer(code, "<u4").reshape(-1, COMMAND_BYTES // 4).astype(object)
    return [(int(w[0]) >> 25, int(w[1] | w[2] << 32), int(w[3] | w[4] << 32)) for w in words]


def code_of(commands: Sequence[Command]) -> bytes:
    """The other way round, as the device's page does it."""
    words = [
        (0x7B | 3 << 12 | funct << 25).to_bytes(4, "little")
        + rs1.to_bytes(8, "little")
        + rs2.to_bytes(8, "little")
        for funct, rs1, rs2 in commands
    ]
    return b"".join(words)


def truth_of(shared: Path) -> Callable[..., Any]:
    """The executor of raw commands: a chip of a memory and its first address."""
    text = (shared / "cases/accelerators/gemlet/truth/gemlet_truth.py").read_text()
    names: dict[str, Any] = {"__file__": "truth"}
    exec(text.split("def main")[0], names)
    chip: Callable[..., Any] = names["Chip"]
    return chip


def after(chip: Callable[..., Any], vector: TableVector, commands: Sequence[Command]) -> Any:
    """Memory after commands, as that executor has it."""
    made = chip(vector.program.dram_in.copy(), vector.program.dram_base)
    for command in commands:
        made.run(*command)
    return made.mem


def vectors(compiled: Compiled) -> tuple[Accelerator, list[TableVector]]:
    (accelerator,) = accelerators_of(compiled.artifact).values()
    return accelerator, [measure_table(p) for p in table_programs(compiled.artifact, accelerator)]


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[more] if name == "vww" else []) for name in FLOATS]
)
def test_the_truth_computes_the_same_from_its_commands(
    name: str, shared: Path, figure: Callable[[str], None]
) -> None:
    """Whole networks: outputs are the definition's, and every byte of every program's memory is the
    truth's."""
    compiled = made_for("gemmini -movers=1", EXAMPLE, shared, name)
    x = np.load(shared / f"models/golden/{FLOATS[name]}.npz")["in0"][:1]
    graph = compiled.partition.graph
    (got,) = compiled.run(x)
    want = reference.run(graph, [x[0]])[0]
    np.testing.assert_allclose(got[0], want, rtol=1e-6)  # a softmax of floats on the host is last
    where = Counter(row["where"] for row in compiled.explain())
    chip, count = truth_of(shared), 0
    _, found = vectors(compiled)
    for vector in found:
        commands = commands_of(vector.program.code.tobytes())
        count += len(commands)
        np.testing.assert_array_equal(after(chip, vector, commands), vector.dram_out())
    runs = TableSimulator(accelerators_of(compiled.artifact)).runs(compiled.artifact)
    cycles = sum(run.cycles for run in runs)
    figure(f"{name} on gemmini: {dict(where)}, {count} commands, {cycles} cycles, truth's bytes")


@pytest.mark.full
def test_recorded_commands_are_instructions_of_the_table(shared: Path, tmp_path: Path) -> None:
    """Those that another description's driver writes for ResNet8: each decodes, encodes to the same
    bytes, and the simulator computes from them what the truth does. That description moves zeros in
    from address 0, where there is memory here."""
    folder = shared / "cases/accelerators/gemlet"
    compiled = made_for("gemlet", folder, shared, "resnet8")
    recorder, (_, found) = tmp_path / "record", vectors(compiled)
    sources = [folder / "truth/record.c", folder / "gemlet.c"]
    include = f"-I{ROOT / 'driver/include'}"
    subprocess.run(["gcc", "-O1", include, *sources, "-o", recorder], check=True)
    table = load_plugins([EXAMPLE], installed=False).backends["gemmini"]().accelerator
    assert table is not None
    chip, seen = truth_of(shared), Counter[str]()
    for vector in found:
        (tmp_path / "code").write_bytes(vector.program.code.tobytes())
        said = subprocess.run(
            [recorder, tmp_path / "code"], check=True, capture_output=True, text=True
        ).stdout
        lines = [line.split() for line in said.splitlines()]
        commands = [(int(f), int(a, 16), int(b, 16)) for f, a, b in lines]
        code = code_of(commands)
        insns = decode(table.table, code)
        assert encode(table.table, insns) == code
        seen.update(insn.name for insn in insns)
        image = vector.program.dram_in.copy()
        zeros = DramWindow(0, np.zeros(4096, np.uint8), writable=False)
        windows = [DramWindow(vector.program.dram_base + 4096, image), zeros]
        moved = [
            (f, a + 4096 if f in (1, 2, 3) and a else a, b) for f, a, b in commands
        ]  # out of the way of address 0
        TableMachine(table, Dram(windows)).run(0, len(commands), code_of(moved))
        np.testing.assert_array_equal(image, after(chip, vector, commands))
    assert seen.keys() == {
        *("config_ex", "config_ld", "config_st", "config_stride", "mvin", "mvin_acc", "mvout"),
        *("preload", "preload_kept", "compute_preloaded", "compute_accumulated"),
    }
