# SPDX-License-Identifier: Apache-2.0
"""artifact/format.py: what is written is read, of every operator."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    HostStep,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.host_step import HostOpcode, PackWindow, SoftmaxScaling, Strided
from loadstone.errors import ArtifactError
from tests.sample_model import copy_model


def test_what_is_written_is_read() -> None:
    model = copy_model()
    assert Artifact.from_bytes(model.to_bytes()) == model


UNARY = [code for code in host_step.HostOpcode if 11 <= code <= 17]
BINARY = [code for code in host_step.HostOpcode if 18 <= code <= 24]


#: Position 2, one row.
PLACE = struct.pack("<2i", 2, 1)
#: Tensors of a decoder, numbered from 14 on: two groups of 8 places of 4, four heads.
ROWS = (
    BufferView("place", (2,), DataType.INT32, 4, 256),
    *(
        BufferView(name, shape, DataType.of(dtype), 3, 2048 + 512 * k)
        for k, (name, shape, dtype) in enumerate(
            (
                ("keys", (2, 8, 4), "int8"),
                ("key scales", (2, 8), "float32"),
                ("values", (2, 8, 4), "int8"),
                ("value scales", (2, 8), "float32"),
                ("queries", (1, 4, 4), "float32"),
                ("attended", (1, 4, 4), "float32"),
                ("weights", (8,), "float32"),
                ("angles", (8, 4), "float32"),
                ("new", (1, 2, 4), "int8"),
                ("sums", (4, 4), "int32"),
                ("planes", (4, 12), "int8"),
                ("wide", (2, 64), "float32"),
                ("turned", (2, 64), "int8"),
                ("wide scales", (2,), "float32"),
                ("channels", (4,), "float32"),
            )
        )
    ),
)
#: Operators on rows: tensors, and parameters.
ON_ROWS: tuple[tuple[HostOpcode, tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    (HostOpcode.RMS_NORM, (2, 29), (7,), (4, 0x3727C5AC)),
    (HostOpcode.ROTATE_PLACES, (19, 14, 22), (20,), (4, 4, 4, 1)),
    (HostOpcode.ROW_SCALES, (26,), (28,), (64, 1)),
    (HostOpcode.QUANTIZE_ROWS, (26, 28), (27,), (64, 1)),
    (HostOpcode.RESCALE_ROWS, (25, 29, 29), (7,), (4, 3)),
    (HostOpcode.KEEP_ROWS, (23, 14), (15,), (2, 4)),
    (HostOpcode.ATTENTION, (19, 14, 15, 16, 17, 18), (20, 21), (4, 2, 4, 3, 0x3F000000)),
    (HostOpcode.GATE, (2, 7), (20,), (1,)),
)


def every_operator_model() -> Artifact:
    """The copy model with one step of every operator behind its own."""
    return dataclasses.replace(
        copy_model(),
        regions=(
            *copy_model().regions,
            MemoryRegion("host", RegionKind.HOST, 1 << 16, 8),
            MemoryRegion("table", RegionKind.CONSTANTS, 264, 1, data=bytes(range(256)) + PLACE),
        ),
        tensors=(
            BufferView("x", (1, 16), DataType.INT8, 1, 0),
            BufferView("y", (1, 16), DataType.INT8, 2, 0, 0.25, -3),
            BufferView("float", (1, 16), DataType.FLOAT32, 3, 0),
            BufferView(
                "blocked", (1, 2, 2, 4), DataType.INT8, 3, 64, 0.5, 1, ViewLayout.BLOCKED, 1, 16
            ),
            BufferView("flat", (1, 16), DataType.INT8, 3, 128),
            BufferView("table", (256,), DataType.INT8, 4, 0),
            BufferView("index", (1,), DataType.INT64, 3, 256),
            BufferView("float2", (4, 4), DataType.FLOAT32, 3, 512),
            BufferView("row", (2, 2), DataType.FLOAT32, 3, 640),
            BufferView("indices", (1, 3), DataType.INT32, 3, 704),
            BufferView("taken", (1, 3, 4), DataType.FLOAT32, 3, 768),
            BufferView("matrices", (2, 4, 4), DataType.FLOAT32, 3, 1024),
            BufferView("products", (2, 4, 4), DataType.FLOAT32, 3, 1280),
            BufferView(
                "tiles",
                (1, 2, 2, 4),
                DataType.FLOAT32,
                3,
                1536,
                layout=ViewLayout.BLOCKED,
                batch_block=1,
                channel_block=4,
            ),
            *ROWS,
            BufferView(
                *("words", (6, 1, 1, 5), DataType.INT8, 3, 16384, 0.0, 0, ViewLayout.BLOCKED, 4, 4)
            ),
            BufferView("word rows", (3, 5), DataType.INT8, 3, 16448),
            BufferView(
                *("wide words", (6, 1, 2, 5), DataType.INT8, 3, 16512, 0.0, 0),
                *(ViewLayout.BLOCKED, 4, 4),
            ),
            BufferView(
                *("tall words", (6, 2, 1, 5), DataType.INT8, 3, 16640, 0.0, 0),
                *(ViewLayout.BLOCKED, 4, 4),
            ),
            BufferView("twice", (2, 3, 5), DataType.INT8, 3, 16768),
        ),
        steps=(
            *copy_model().steps,
            host_step.copy("transpose", 0, 4, (4, 4), Strided((1, 4)), Strided((4, 1))),
            host_step.fill("fill", 4, 255),
            host_step.pack("pack", 4, 3, (2, 2, 4), PackWindow(pad_value=-128)),
            host_step.unpack("unpack", 3, 4, nchw=True),
            host_step.quantize("quantize", 2, 1, half_to_even=True, low=-100),
            host_step.dequantize("dequantize", 1, 2),
            host_step.lookup("lookup", 4, 5, 4),
            host_step.softmax_int8("softmax", 0, 1, 16, SoftmaxScaling(1 << 30, 3, -248)),
            host_step.softmax_float32("softmax", 2, 7, 4),
            host_step.argmax("argmax", 0, 6, 16),
            *(host_step.unary(code.name, code, 2, 7) for code in UNARY),
            *(
                host_step.broadcast(code.name, code, (2, 8, 7), (4, 4), ((4, 1), (0, 1)))
                for code in BINARY
            ),
            host_step.sum_float32("sum", 7, 8, 4, 1),
            host_step.matmul_float32("matmul", (11, 7, 12), (4, 4, 4), b_shared=True),
            host_step.gather("gather", (7, 9, 10), 4, 4),
            host_step.gather("blocked rows", (30, 9, 31), 6, 5),
            host_step.matmul_float32("square", (7, 7, 2), (4, 4, 4)),
            *(
                host_step.on_rows(code.name, code, inputs, outputs, values)
                for code, inputs, outputs, values in ON_ROWS
            ),
            host_step.external("magic", (0, 2), (1,), "tvm", '{"k": 1}'),
        ),
    )


def test_every_operator_is_read_as_written() -> None:
    model = every_operator_model()
    assert {s.opcode for s in model.steps if isinstance(s, HostStep)} == set(host_step.OPERATORS)
    assert Artifact.from_bytes(model.to_bytes()) == model


def test_a_missing_file_is_one_line(tmp_path: object) -> None:
    with pytest.raises(ArtifactError, match=r"none\.lds: No such file"):
        Artifact.load(f"{tmp_path}/none.lds")
