# SPDX-License-Identifier: Apache-2.0
"""ProgramRegion: instructions that name tensors become code and relocations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.backend.device import LayerRange, ProgramDevice, Relocation
from loadstone.backend.interface import Segment
from loadstone.backend.plugins import load_plugins
from loadstone.backend.program import ProgramRegion, verify_code
from loadstone.backend.region import Address
from loadstone.backend.template import isa_backend as isa_template
from loadstone.backend.template.test_isa_backend import small_model
from loadstone.compiler import compile
from loadstone.errors import EncodingError, LoweringError
from loadstone.graph import Graph, Reshape, Tensor
from loadstone.graph import reference as graph_reference
from loadstone.isa.codec import At, TableInsn, decode, encode
from loadstone.isa.table import InstructionForm, InstructionTable
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from tests.isa import tiled_device, tokened
from tests.isa.tables import NPU, npu

X, Y = Tensor("x", (2, 3, 5, 20), "int8"), Tensor("y", (2, 300), "int8")
Y2 = Tensor("y2", (2, 300), "int8")
MOVE = Reshape(name="move", inputs=(X,), outputs=(Y,))


def region() -> ProgramRegion:
    graph = Graph(name="g", inputs=(X,), outputs=(Y,), operators=(MOVE,))
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
    assert program.instructions == encode(NPU, made.instructions)
    assert program.relocations == (
        Relocation(0, 8, 40, 4, 2, 96),
        Relocation(16, 20, 32, 0, 2, 1024),
    )
    assert (len(program), program.layers) == (3, (LayerRange("move", 0, 3),))
    assert made.program_device == ProgramDevice("npu", NPU.fingerprint)


def test_an_unknown_name() -> None:
    made = region()
    made.emit(MOVE, TableInsn("store", {"address": At("z"), "rows": 1}))
    with pytest.raises(LoweringError, match="store names 'z', which is no tensor"):
        made.build({}, Address(1, 0))


@pytest.mark.parametrize(
    ("offset", "place", "said"),
    [(52, 64, "52 is no multiple of 16: .*offset is 4 too"), (16, 72, "16 is .* byte 88 of a reg")],
)
def test_an_address_that_its_field_cannot_say(offset: int, place: int, said: str) -> None:
    made = region()
    x = made.tensor(X)
    made.emit(MOVE, TableInsn("copy", {"address": At(x, offset), "rows": 2, "stride": 16}))
    with pytest.raises(LoweringError, match=rf"s: copy.address=@x for npu\+{said}"):
        made.build({x: Address(2, place)}, Address(1, 0))


def test_tiles_get_rows_and_layers_keep_their_instructions() -> None:
    """The second layer's load of what the first left there goes."""
    device = tiled_device.device(8)
    second = Reshape(name="second", inputs=(X,), outputs=(Y2,))
    graph = Graph(name="g", inputs=(X,), outputs=(Y, Y2), operators=(MOVE, second))
    made = ProgramRegion(Segment("s", "t", graph, (MOVE, second), (X,), (X,), (Y, Y2)), device)
    x, y, y2 = made.tensor(X), made.tensor(Y), made.tensor(Y2)
    for operator, target in ((MOVE, y), (second, y2)):
        pad, out = InTile(LocalTile("pad", 2, "pad")), InTile(LocalTile("out", 2, "out"))
        read = TiledInsn("read", {"address": At(x), "row": pad, "rows": 2})
        mix = TiledInsn("mix", {"row": pad, "target": out, "rows": 2})
        write = TiledInsn("write", {"address": At(target), "row": out, "rows": 1})
        made.emit(operator, read, mix, write)
    places = {x: Address(2, 0), y: Address(2, 1024), y2: Address(2, 2048)}
    program, _ = made.build(places, Address(1, 0))
    found = decode(device.table, program.instructions)
    assert [i.name for i in found] == ["read", "mix", "write", "mix", "write"]
    assert [i.fields["row"] for i in found] == [0, 0, 0, 0, 2]
    assert [i.fields["target"] for i in found if i.name == "mix"] == [0, 2]
    assert program.layers == (LayerRange("move", 0, 3), LayerRange("second", 3, 2))

    large = InTile(LocalTile("pad", 9, "large"))
    made.emit(second, TiledInsn("read", {"address": At(x), "row": large, "rows": 2}))
    with pytest.raises(LoweringError, match="s on tiled: allocate: pad has no room for large of 9"):
        made.build(places, Address(1, 0))


def test_tokens_are_set_when_everything_has_its_place() -> None:
    """Of two layers; a no-op belongs to the layer of the instruction behind it."""
    device = tokened.device(tokened.CHAIN, "core")
    second = Reshape(name="second", inputs=(Y,), outputs=(Y2,))
    graph = Graph(name="g", inputs=(X,), outputs=(Y2,), operators=(MOVE, second))
    made = ProgramRegion(Segment("s", "t", graph, (MOVE, second), (X,), (X,), (Y2,)), device)
    x, y = made.tensor(X), made.tensor(Y2)
    write = TableInsn("write", {"address": At(y), "rows": 1})
    made.emit(MOVE, TableInsn("read", {"address": At(x), "rows": 1}), write)
    made.emit(second, TableInsn("read", {"address": At(x), "rows": 1, "row": 4}))
    program, _ = made.build({x: Address(2, 0), y: Address(2, 0)}, Address(1, 0))  # one place
    said = [
        (i.name, {k for k, v in i.fields.items() if k[1:3] in "pushpop" and v})
        for i in decode(device.table, program.instructions)
    ]
    assert said == [
        ("read", {"push_next"}),
        ("wait_core", {"pop_prev", "push_next"}),
        ("write", {"pop_prev", "push_prev"}),
        ("wait_core", {"pop_next", "push_prev"}),
        ("read", {"pop_next"}),
    ]
    assert program.layers == (LayerRange("move", 0, 3), LayerRange("second", 3, 2))
    assert [r.offset_bytes for r in program.relocations] == [0, 16, 32]
    assert len(program) == 5

    made = ProgramRegion(
        Segment("s", "t", graph, (MOVE,), (X,), (X,), (Y,)), tokened.device(tokened.CHAIN)
    )
    made.emit(MOVE, TableInsn("read", {"address": At("x"), "rows": 1}), write)
    places = {"x": Address(2, 0), y: Address(2, 0)}
    with pytest.raises(LoweringError, match="s on tokened: back must wait for in by way of core"):
        made.build(places, Address(1, 0))


def test_bytes_of_other_instructions_are_found() -> None:
    """Each is the right code, changed at one place."""
    insns = [
        TableInsn("copy", {"address": At("x", 32), "rows": 2, "stride": 16}),
        TableInsn("store", {"address": At("y"), "rows": 2}),
    ]
    verify_code(NPU, insns, encode(NPU, insns))
    other = TableInsn("copy", {"address": At("x"), "rows": 3, "stride": 16})
    for wrong, found in (
        (insns[:1], "2 instructions decode to 1"),
        ([*insns, insns[1]], "2 instructions decode to 3"),
        ([other, insns[1]], "instruction 0, copy, decodes to"),
        ([insns[0], TableInsn("end", {})], "instruction 1, store, decodes to"),
    ):
        with pytest.raises(LoweringError, match=found):
            verify_code(NPU, insns, encode(NPU, wrong))
    code = bytearray(encode(NPU, insns))
    code[2] ^= 0x10  # a bit of the address, which a relocation fills in
    with pytest.raises(LoweringError, match="instruction 0, copy, decodes to"):
        verify_code(NPU, insns, bytes(code))


def test_an_instruction_without_fields_is_known_by_its_name() -> None:
    table = InstructionTable("t", (InstructionForm("stop", 1), InstructionForm("go", 2)))
    stop, go = TableInsn("stop", {}), TableInsn("go", {})
    verify_code(table, [stop, go], encode(table, [stop, go]))
    with pytest.raises(LoweringError, match="instruction 1, go, decodes to"):
        verify_code(table, [stop, go], encode(table, [stop, stop]))


def test_a_row_outside_its_field_is_found() -> None:
    """Where the back end gives it: it is no mistake of a pass."""
    made = region()
    far = TableInsn("store", {"address": At(made.tensor(Y)), "rows": 1 << 20})
    with pytest.raises(EncodingError, match=r"move: store.rows=1048576 is not in \[1, 255\]"):
        made.emit(MOVE, far)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (37, None),
        (
            38,
            "s on npu: instruction 0, store: writes bytes 512 to 1119 of region 2, which has 1112",
        ),
    ],
)
def test_what_leaves_its_memory_is_refused(rows: int, said: str | None) -> None:
    """By the instruction, its place and the limit, as the runtime would refuse it."""
    made = region()
    y = made.tensor(Y, 4)
    made.emit(MOVE, TableInsn("store", {"address": At(y), "rows": rows}))
    places = {y: Address(2, 512)}
    if said is None:
        made.build(places, Address(1, 0))
        return
    with pytest.raises(LoweringError, match=said):
        made.build(places, Address(1, 0))


def test_constants_are_not_written() -> None:
    made = region()
    w = made.constant("w", np.ones(64, np.int32))
    made.emit(MOVE, TableInsn("store", {"address": At(w), "rows": 1}))
    with pytest.raises(LoweringError, match="store: writes region 3, which it may not"):
        made.build({w: Address(3, 0)}, Address(1, 0))


@pytest.mark.parametrize("shift", [0, 7, 16])
def test_memory_begins_where_address_fields_can_say(shift: int, tmp_path: Path) -> None:
    """A table whose addresses count 128 bytes, or 64 KiB: constants, tensors and their regions
    begin at multiples of that, and the C runtime runs the program."""
    text = Path(isa_template.__file__).read_text(encoding="utf-8")
    field = f"{32 - shift}, address=True, shift={shift}"
    assert text.count("32, address=True") == 2
    text = text.replace("32, address=True", field).replace("my_npu", "shifted")
    (tmp_path / "shifted.py").write_text(text.replace('"my-npu"', '"shifted"'), encoding="utf-8")
    plugins = load_plugins([tmp_path], installed=False)
    assert plugins.problems == []
    model = small_model(tmp_path / "dense.onnx")
    made = compile(model, "shifted", plugins=plugins)
    assert {row["where"] for row in made.explain() if row["kind"] == "dense"} == {"shifted"}
    align = max(64, 1 << shift)
    seen = [region for region in made.artifact.regions if region.on_device]
    assert all(region.align_bytes % align == 0 for region in seen)
    (program,) = made.artifact.programs
    assert {r.addend_bytes % (1 << shift) for r in program.relocations} == {0}
    x = np.random.default_rng(1).integers(-128, 128, made.graph.inputs[0].shape).astype(np.int8)
    np.testing.assert_array_equal(made.run(x[None])[0][0], graph_reference.run(made.graph, [x])[0])
