# SPDX-License-Identifier: Apache-2.0
"""relax/dump.py: every stage of a small network as text, compared with tests/golden/dump.

A residual block on the tiny device: a 3x3 convolution of 8 channels, and an addition. A change of
the compiler is read as a change of these texts; what becomes of one operator in between is in
tests/golden/lowering.

pytest tests/relax/test_dump.py --update-golden writes them anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.numerics import Rounding
from loadstone.relax.dump import Dump
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.meaning.listing import listing, programs_of
from loadstone.vta.passes.pipeline import PASSES
from loadstone.vta.region.offload import OffloadedRegion
from tests import lowered as lo
from tests.tflite_builder import Graph, Padding

GOLDEN = Path(__file__).parents[1] / "golden" / "dump"


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Title -> text."""
    folder = tmp_path_factory.mktemp("dump")
    (folder / "block.tflite").write_bytes(residual_block())
    compiled = compile(folder / "block.tflite", "vtaq-tiny", dump=folder / "stages")
    texts = {
        path.name.split(".", 1)[1].removesuffix(".txt"): path.read_text()
        for path in sorted((folder / "stages").iterdir())
    }
    programs = programs_of(compiled.artifact.to_bytes(), "block.lds")
    return {
        **texts,
        "program": "\n".join(line for program in programs for line in listing(program)) + "\n",
    }


def residual_block() -> bytes:
    graph = Graph()
    x = graph.input((1, 6, 6, 8), np.int8, 0.05, -3)
    weights = (np.arange(8 * 3 * 3 * 8) * 37 % 255 - 127).astype(np.int8).reshape(8, 3, 3, 8)
    w, b = (
        graph.constant(weights, [0.01] * 8, 0),
        graph.constant(np.arange(8, dtype=np.int32), [0.0005] * 8, 0),
    )
    y = graph.tensor((1, 6, 6, 8), np.int8, 0.1, 5, name="conv")
    z = graph.tensor((1, 6, 6, 8), np.int8, 0.15, 0, name="sum")
    graph.operator("CONV_2D", [x, w, b], [y], padding=Padding.SAME, stride_h=1, stride_w=1)
    graph.operator("ADD", [x, y], [z])
    return graph.save([z])


@pytest.mark.parametrize("title", ["relax", "graph", "steps", "program"])
def test_a_stage_reads_as_before(stages: dict[str, str], title: str, update_golden: bool) -> None:
    path = GOLDEN / f"{title}.txt"
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stages[title])
    assert stages[title] == path.read_text(), (
        f"{path.name} changed: read the difference, then run pytest with --update-golden"
    )


def test_both_operators_show_every_stage(stages: dict[str, str]) -> None:
    for operator in ("conv", "sum"):
        for stage in ("schedule", "loops", "dma_copy", "compute", "python"):
            assert stages[f"{operator}.{stage}"].strip()


def test_files_are_numbered_in_the_order_of_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "block.tflite").write_bytes(residual_block())
    compile(tmp_path / "block.tflite", "vtaq-tiny", dump=tmp_path / "all")
    names = sorted(path.name for path in (tmp_path / "all").iterdir())
    kernel = ("schedule", "loops", "dma_copy", "compute", "python", "operations")
    titles = ["relax", "graph", *(f"{o}.{stage}" for o in ("conv", "sum") for stage in kernel)]
    titles += [f"vta_0.{step.name}" for step in PASSES]
    titles.append("steps")
    assert names == [f"{n:03}.{title}.txt" for n, title in enumerate(titles, start=1)]
    chosen = Dump(tmp_path / "one", "allocate")
    compile(tmp_path / "block.tflite", "vtaq-tiny", dump=chosen)
    (one,) = (tmp_path / "one").iterdir()
    assert one.name in names
    assert one.read_text() == (tmp_path / "all" / one.name).read_text()


def test_a_stage_alone_is_printed_or_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "block.tflite").write_bytes(residual_block())
    arguments = ["compile", str(tmp_path / "block.tflite"), "-t", "vtaq-tiny", "-o"]
    arguments.append(str(tmp_path / "block.lds"))
    assert main([*arguments, "--dump-after", "synchronize"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# vta_0.synchronize\n")
    assert "\npop(load) gemm" in printed
    assert main([*arguments, "--dump-after", "link"]) == 2
    assert "no stage of this compilation has that name; there were relax, graph, schedule" in (
        capsys.readouterr().err
    )
    assert main([*arguments, "--dump-after", "graph", "--json"]) == 2
    assert "needs --dump DIR" in capsys.readouterr().err


def test_operators_without_tensorir_show_their_operations() -> None:
    """A concatenation by copies has no kernel; a reshape has no operations either."""
    config = load_config("vtaq-tiny")
    a, b = (lo.tensor(name, (1, 4, 4, 8)) for name in "ab")
    joined = lo.tensor("joined", (1, 4, 4, 16))
    flat = lo.tensor("flat", (1, 2, 8, 16))
    flags = {"low": -128, "high": 127, "rounding": Rounding.SINGLE}
    operators = [
        g.Concatenate(name="concat", inputs=(a, b), outputs=(joined,), axis=3, **flags),
        g.Reshape(name="reshape", inputs=(joined,), outputs=(flat,)),
    ]
    region = OffloadedRegion("region", operators, (), (a, b, flat), config)
    assert [title for title, _ in region.stages["concat"]][-1] == "operations"
    assert "store joined[" in dict(region.stages["concat"])["operations"]
    assert region.stages["reshape"] == (
        ("operations", "# nothing to do: its tensors share memory\n"),
    )
