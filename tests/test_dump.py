"""dump.py: every stage of a small network as text, compared with tests/golden/dump.

A residual block on the tiny device: a 3x3 convolution of 8 channels, and an addition. A change of
the compiler is read as a change of these texts; what becomes of one operator in between is in
tests/golden/lowering.

pytest tests/test_dump.py --update-golden writes them anew.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile
from loadstone.vta.listing import listing, programs_of
from tests.tflite_builder import Graph, Padding

GOLDEN = Path(__file__).parent / "golden" / "dump"


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
