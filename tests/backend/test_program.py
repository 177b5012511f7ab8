"""ProgramRegion: instructions that name tensors become code and relocations."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.backend.device import LayerRange, Relocation
from loadstone.backend.interface import Segment
from loadstone.backend.program import ProgramRegion
from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.graph import Graph, Reshape, Tensor
from loadstone.isa.codec import At, TableInsn, encode
from tests.isa.tables import NPU, npu

X, Y = Tensor("x", (2, 3, 5, 20), "int8"), Tensor("y", (2, 300), "int8")
MOVE = Reshape(name="move", inputs=(X,), outputs=(Y,))


def region() -> ProgramRegion:
    graph = Graph("g", (X,), (Y,), (MOVE,), {})
    return ProgramRegion(Segment("s", "npu", graph, (MOVE,), (X,), (X,), (Y,)), npu())


def test_tensors_and_constants_get_places() -> None:
    made = region()
    assert made.tensor(X, 16) == "x for npu"
    assert made.tensor(Y) == "y for npu"
    assert made.scratch(MOVE, "more", 64) == "more"
    assert made.constant("w", np.ones(3, np.int32)) == "w for npu"
    layouts = {layout.name: layout for layout, _, _ in made.layouts}
    assert layouts["x for npu"].shape == (2, 3, 5, 20)
    assert layouts["x for npu"].channel_block == 32
    assert layouts["x for npu"].size_bytes == 2 * 3 * 5 * 32
    assert (layouts["y for npu"].shape, layouts["y for npu"].size_bytes) == ((2, 1, 1, 300), 600)
    assert (layouts["more"].scratch, layouts["more"].size_bytes) == (True, 64)
    assert made.constants["w for npu"][0].tolist() == [1, 1, 1]


def test_code_and_relocations() -> None:
    made = region()
    x, y = made.tensor(X), made.tensor(Y)
    copy = TableInsn("copy", {"address": At(x, 32), "rows": 2, "stride": 16})
    made.emit(MOVE, copy, TableInsn("end", {}))
    made.emit(MOVE, TableInsn("store", {"address": At(y), "rows": 2}))
    assert len(made.instructions) == 3
    program, micro_ops = made.build({x: Address(2, 64), y: Address(2, 1024)}, Address(1, 0))
    assert micro_ops == b""
    assert program.code == encode(NPU, made.instructions)
    assert program.relocations == (
        Relocation(0, 8, 40, 4, 2, 96),
        Relocation(16, 20, 32, 0, 2, 1024),
    )
    assert (len(program), program.layers) == (3, (LayerRange("move", 0, 3),))
    assert (program.device, program.fingerprint) == ("npu", NPU.fingerprint)


def test_an_unknown_name() -> None:
    made = region()
    made.emit(MOVE, TableInsn("store", {"address": At("z"), "rows": 1}))
    with pytest.raises(LoweringError, match="store names 'z', which is no tensor"):
        made.build({}, Address(1, 0))
