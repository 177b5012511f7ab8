# SPDX-License-Identifier: Apache-2.0
"""Files with instructions in them, as listings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import ArtifactError, ConfigError, EncodingError, LoadstoneError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Finish, Gemm, Load, MicroOp
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.meaning.listing import Program, listing, programs_of
from loadstone.vta.meaning.reference import DramBytes
from tests.sample_model import copy_model

TINY = load_config("vtaq-tiny")


def lines_of(data: bytes, device: str | None = None) -> list[str]:
    return [line for program in programs_of(data, "x", device) for line in listing(program)]


def test_instruction_bytes() -> None:
    data = encode_stream([Load(memory_id=Memory.INP), Finish()], TINY).tobytes()
    assert lines_of(data, "vtaq-tiny") == [
        "# x: 2 instructions for vtaq-tiny",
        "    0: nop load",
        "    1: finish",
    ]


def test_a_vector_with_its_micro_ops(shared: Path) -> None:
    path = shared / "vta_rtl" / "conv_conv3x3_v1.npz"
    lines = lines_of(path.read_bytes())
    assert lines[5] == (
        "    4: pop(load) gemm acc[u] += inp[u+16i+1j] * wgt[u+3i+1j] for i<3 j<3 u in "
        "0..196 push(load)"
        "  # u0: acc[0] inp[0] wgt[0]; u1: acc[1] inp[1] wgt[0]; u2: acc[2] inp[2] wgt[0]; "
        "... 196 in all"
    )
    np.testing.assert_array_equal(
        assemble("\n".join(lines), load_config("vta-pynq")), np.load(path)["insns"]
    )


def test_an_artifact_knows_its_device_and_layers() -> None:
    data = copy_model().to_bytes()
    lines = lines_of(data)
    assert lines[:2] == ["# copy: 5 instructions for vtaq-1x16x16", "# layer copy"]
    assert lines[4].endswith("# u0: acc[0]")
    assert lines_of(data, "vtaq-1x16x16") == lines
    with pytest.raises(
        ArtifactError,
        match=r"^x is for device vtaq-1x16x16 \(config hash 0x\w+\), not for vta-pynq \(0x\w+\)$",
    ):
        lines_of(data, "vta-pynq")


def test_an_artifact_is_for_the_device_that_it_names() -> None:
    model = copy_model()
    renamed = replace(model, devices=(replace(model.devices[0], name="mine"),))
    assert lines_of(renamed.to_bytes())[0] == "# copy: 5 instructions for mine"


def test_a_name_cannot_become_an_instruction() -> None:
    program = Program("a\nfinish", TINY, encode_stream([Finish()], TINY), (), {0: "b\r\nfinish"})
    assert list(listing(program)) == [
        "# a finish: 1 instructions for vtaq-tiny",
        "# layer b finish",
        "    0: finish",
    ]


def test_micro_ops_are_shown_while_they_are_known() -> None:
    uops = encode_uops([MicroOp(1, 2, 3), MicroOp(4, 5, 6)], TINY).view(np.uint8)
    load, step = (
        Load(memory_id=Memory.UOP, y_size=1, x_size=2, x_stride=2),
        {"uop_end": 2, "iter_out": 1, "iter_in": 1},
    )
    insns = encode_stream(
        [
            Gemm(**step),
            load,
            Gemm(**step),
            Gemm(**step, reset=1),
            Alu(**step, alu_op=AluOp.ADD),
            Load(
                memory_id=Memory.UOP, sram_base=1, dram_base=99, y_size=1, x_size=1
            ),  # not in the file
            Gemm(**step),
        ],
        TINY,
    )
    notes = [
        line.partition("#")[2] for line in listing(Program("x", TINY, insns, [DramBytes(uops)]))
    ][1:]
    assert notes == [
        "",
        "",
        " u0: acc[1] inp[2] wgt[3]; u1: acc[4] inp[5] wgt[6]",
        " u0: acc[1]; u1: acc[4]",
        " u0: acc[1] acc[2]; u1: acc[4] acc[5]",
        "",
        "",
    ]


@pytest.mark.parametrize("part", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_cut_files_are_one_line(shared: Path, part: float) -> None:
    for whole in (
        (shared / "vta_rtl" / "conv_conv3x3_v1.npz").read_bytes(),
        copy_model().to_bytes(),
    ):
        with pytest.raises(LoadstoneError, match="^x: .") as caught:
            lines_of(whole[: int(part * len(whole))])
        assert "\n" not in str(caught.value)


def test_other_mistakes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", other=np.zeros(3))
    with pytest.raises(LoadstoneError, match="^x: has no array `insns`, but other$"):
        lines_of((tmp_path / "a.npz").read_bytes())
    np.savez(tmp_path / "b.npz", insns=np.array([{}], object))
    with pytest.raises(
        LoadstoneError, match="^x: is no sound .npz file: Object arrays cannot be loaded"
    ):
        lines_of((tmp_path / "b.npz").read_bytes())
    np.savez(tmp_path / "c.npz", insns=np.zeros((2, 16)))
    with pytest.raises(
        LoadstoneError, match=r"^x: `insns` is float64 \(2, 16\), not uint8 \(N, 16\)$"
    ):
        lines_of((tmp_path / "c.npz").read_bytes())
    with pytest.raises(
        EncodingError, match="^x: instruction 0: opcode 7 is unknown; known are LOAD 0, STORE 1, "
    ):
        lines_of(b"\xff" * 16)
    with pytest.raises(ConfigError, match="'nope' is neither built in"):
        lines_of(b"", "nope")
