# SPDX-License-Identifier: Apache-2.0
"""backend/from_table.py: programs that follow from a table compute the same as those that are
written by hand, in about as many cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.backend.computations import COMPUTATIONS, Computation
from loadstone.backend.from_table import FromTable, _renamed
from loadstone.backend.plugins import load_plugins
from loadstone.backend.template.test_isa_backend import small_model
from loadstone.compiler import compile
from loadstone.errors import LoweringError, Refusal, VerificationError
from loadstone.graph import reference
from loadstone.isa.codec import At
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.passes.log import PassLog
from loadstone.runtime import device
from loadstone.runtime.accelerators import accelerators_of
from loadstone.selection.match_instructions import Matched
from loadstone.simulator.table_profile import TableSimulator
from tests.conftest import ROOT
from tests.examples_table import FLOATS
from tests.ir_pass.test_pipeline import convolution
from tests.passes.networks import plugins
from tests.repeat import more

BY_HAND = ROOT / "tests/backend/by_hand"
GEMMINI = {"gemmini": ROOT / "docs/examples/gemmini", "gemmini-by-hand": BY_HAND}
#: Cycles by table, as a part of those by hand, at most.
MOST = 1.2


def backend(**attributes: int) -> FromTable:
    found = plugins().backends["systolic"](**attributes)
    assert isinstance(found, FromTable)
    return found


def cycles(artifact: Artifact) -> list[int]:
    return [one.cycles for one in TableSimulator(accelerators_of(artifact)).runs(artifact)]


def test_dense_layers_without_a_program_by_hand(tmp_path: Path) -> None:
    """Two layers, which VTA-Q computes, too; run by the C runtime on the simulator."""
    model = small_model(tmp_path / "dense.onnx")
    compiled = compile(model, "systolic", plugins=plugins())
    assert [row["where"] for row in compiled.explain()] == ["systolic"] * 2
    x = np.random.default_rng(0).integers(-128, 128, (4, 1, 24)).astype(np.int8)
    want = compile(model, "vtaq-1x16x16").run(x)[0]
    np.testing.assert_array_equal(compiled.run(x)[0], want)
    with device.open("sim") as opened, opened.load(compiled.artifact) as session:
        session.inputs[0][...] = x[0].reshape(session.inputs[0].shape)
        session.execute()
        np.testing.assert_array_equal(session.outputs[0].reshape(want[0].shape), want[0])


@pytest.mark.parametrize(
    ("file", "layers"),
    [
        ("mlpt_resnet8_int8.tflite", 9),
        pytest.param("mlpt_kws_int8.tflite", 5, marks=more),
        pytest.param("mlpt_vww_int8.tflite", 14, marks=more),
    ],
)
def test_networks_equal_litert_in_the_cycles_of_a_program_by_hand(
    shared: Path, file: str, layers: int, figure: Callable[[str], None]
) -> None:
    golden = np.load(shared / f"models/golden/{file}.npz")
    found = {}
    for name, folder in (("systolic", ROOT / "docs/examples/systolic"), ("by-hand", BY_HAND)):
        target = "systolic" if name == "systolic" else "systolic-by-hand"
        compiled = compile(shared / "models" / file, target, plugins=load_plugins([folder]))
        taken = layers + (name == "systolic")  # its dense layer, which has no program by hand
        assert [row["where"] for row in compiled.explain()].count(target) == taken
        artifact = compiled.artifact
        with device.open("sim") as opened, opened.load(artifact) as session:
            batch = session.inputs[0].shape[0]
            session.inputs[0][...] = golden["in0"][:batch].reshape(session.inputs[0].shape)
            session.execute()
            want = golden["out0"][:batch]
            np.testing.assert_array_equal(session.outputs[0].reshape(want.shape), want)
            found[name] = sum(cycles(artifact))
    part = found["systolic"] / found["by-hand"]
    figure(f"{file}: {found} cycles, {part:.2f} of those by hand")
    assert part <= MOST


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("ResNet8", 10),
        pytest.param("Micro KWS", 6, marks=more),
        pytest.param("MobileNetV1", 28, marks=more),
    ],
)
def test_gemmini_takes_the_cycles_of_a_program_by_hand(
    shared: Path, name: str, layers: int, figure: Callable[[str], None]
) -> None:
    """Settings in registers, sums that a bias is added to in memory's rows, depthwise layers. The
    outputs are those of the definition, but for a softmax of floats on the host."""
    file = shared / "models" / FLOATS[name]
    x = np.load(shared / f"models/golden/{FLOATS[name]}.npz")["in0"]
    found = {}
    for target, folder in GEMMINI.items():
        made = compile(file, target, plugins=load_plugins([folder], installed=False), samples=x)
        assert [row["where"] for row in made.explain()].count(target) == layers
        want = reference.run(made.partition.graph, [x[0]])[0]
        np.testing.assert_allclose(made.run(x[:1])[0][0], want, rtol=1e-6)
        found[target] = sum(cycles(made.artifact))
    part = found["gemmini"] / found["gemmini-by-hand"]
    figure(f"{name}: {found} cycles, {part:.2f} of those by hand")
    assert part <= MOST


@pytest.mark.parametrize("rows", [40, 64, 1024])
def test_tiles_fit_any_memory(rows: int) -> None:
    """And are refused where not even a single row of output does."""
    found = backend(accumulator_rows=rows, scratchpad_rows=4 * rows).accepts(
        convolution(16, 1, 1, (16, 16))
    )
    assert found is None
    none = backend(accumulator_rows=rows, scratchpad_rows=8).accepts(
        convolution(16, 1, 1, (16, 16))
    )
    assert isinstance(none, Refusal)
    assert "do not fit scratchpad, which holds 8" in none.why


def test_what_no_instruction_means_is_refused() -> None:
    npu = backend()
    assert npu.accelerator is not None
    table = npu.accelerator.table
    forms = tuple(replace(f, meaning=f.meaning * (f.name != "compute")) for f in table.forms)
    npu.accelerator = replace(npu.accelerator, table=replace(table, forms=forms))
    found = npu.accepts(convolution(16, 1, 1, (16, 16)))
    assert isinstance(found, Refusal)
    assert found.why == "insert_dma_copy: the device has no instruction gemm"
    npu = backend()
    npu.accelerator = None
    with pytest.raises(LoweringError, match="back end systolic: it has no accelerator: set one"):
        _ = npu.chooser


def test_groups_are_refused() -> None:
    found = backend().accepts(convolution(16, 16, 1, (16, 16)))
    assert isinstance(found, Refusal)
    assert found.why == "16 groups: each would fill one column"


def test_every_compile_verifies_the_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody asks for verifiers."""
    monkeypatch.setenv("LOADSTONE_VERIFY", "0")
    operator, npu = convolution(16, 1, 1, (16, 16)), backend()
    computation = COMPUTATIONS["conv2d"](operator, npu.rows)
    assert isinstance(computation, Computation)
    tried = npu._ranked(operator, computation)[0]
    npu._matched(PassLog(operator.name), tried)

    def wrong(*_: object, **more: object) -> Matched:
        made = right(*_, **more)  # type: ignore[arg-type]
        at = next(n for n, insn in enumerate(made.instructions) if insn.name == "compute")
        insn = made.instructions[at]
        made.instructions[at] = TiledInsn(insn.name, {**insn.fields, "adds": 1})
        return made

    from loadstone.backend import from_table

    right = from_table.match_instructions
    monkeypatch.setattr(from_table, "match_instructions", wrong)
    with pytest.raises(VerificationError, match="match_instructions"):
        npu._matched(PassLog(operator.name), tried)


def test_samples_have_tiles_and_addresses_of_their_own() -> None:
    tile = LocalTile("scratchpad", 3, "x")
    insns = [TiledInsn("mvin", {"address": At("x", 8), "row": InTile(tile, 2), "rows": 1})] * 2
    first, second = _renamed(insns, {"x": At("image", 100)})
    (row,) = {insn.fields["row"] for insn in (first, second)}
    assert isinstance(row, InTile)
    assert row.tile is not tile
    assert (row.row, row.tile.memory, row.tile.size_tiles) == (2, "scratchpad", 3)
    assert first.fields["address"] == At("image", 108)
