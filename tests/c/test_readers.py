# SPDX-License-Identifier: Apache-2.0
"""The reader of artifacts in C against Python's, sizes with 64 and 32 bits, and fuzzing.

Rungs 0 and 2 of runtime's ladder; rung 3 is in tests/driver.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, DataType, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.artifact.program_step import PROGRAM_STEP
from loadstone.errors import ArtifactError
from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import load_config
from tests.artifact.test_format import every_operator_model
from tests.board.tools import work
from tests.c.build import LONG_MODES, compile_c, includes
from tests.c.test_c import board_sources, run
from tests.fuzz.artifacts import fuzz
from tests.repeat import times
from tests.sample_model import (
    copy_model,
    dense_model,
    entries_model,
    state_model,
    with_host_memory,
)

pytestmark = pytest.mark.rung("0")


def c_accepts(data: bytes) -> bool:
    """lds_model_open, the rules of host steps and relocations as lds_session_open would check them,
    and those of entries as lds_model_entry does."""
    open_model = lib().lds_model_open
    model, buffer = ffi.new("lds_model *"), ffi.from_buffer(data)
    if open_model(model, buffer, len(data)):
        return False
    steps = ffi.cast("uint8_t *", model.section[5].bytes)
    kinds = [steps[16 * k] | steps[16 * k + 1] << 8 for k in range(model.section[5].count)]
    hosts = [k for k, kind in enumerate(kinds) if kind != PROGRAM_STEP]
    relocated = lib().lds_relocations_check(model) == 0
    divided = lib().lds_model_entry(model, 0, ffi.new("lds_entry *")) == 0
    return relocated and divided and all(lib().lds_row_step_check(model, k) == 0 for k in hosts)


def python_accepts(data: bytes) -> bool:
    try:
        Artifact.from_bytes(data)
    except ArtifactError:
        return False
    return True


def sealed(data: bytearray) -> bytes:
    struct.pack_into("<I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


@pytest.mark.parametrize(
    "model",
    [copy_model(), every_operator_model(), state_model(), entries_model()],
    ids=["copy", "every operator", "state", "entries"],
)
def test_both_readers_refuse_the_same_files(model: Artifact) -> None:
    original, random = model.to_bytes(), np.random.default_rng(1)
    assert c_accepts(original)
    accepted = 0
    changes = times(2000, 6000)
    for k in range(changes):
        data = bytearray(original)
        for _ in range(random.integers(1, 3)):
            at = int(random.integers(16, len(data)))
            if k % 3:
                at = at // 4 * 4
                value = int(
                    random.choice(
                        [
                            0,
                            1,
                            2,
                            255,
                            65535,
                            1 << 16,
                            1 << 31,
                            (1 << 32) - 1,
                            int(random.integers(1 << 32)),
                        ]
                    )
                )
                struct.pack_into("<I", data, min(at, len(data) - 4), value)
            else:
                data[at] = int(random.integers(256))
        file = sealed(data)
        verdict = python_accepts(file)
        assert c_accepts(file) == verdict, [
            (i, original[i], data[i]) for i in range(16, len(data)) if original[i] != data[i]
        ]
        accepted += verdict
    assert 30 < accepted < changes - 100


#: The same of operators since version 6, whose tensors are those of test_format.ROWS, from 14 on.
INFINITE, MANY = 0x7F800000, 1 << 30
ROWS: dict[str, list[tuple[int, int]]] = {
    "RMS_NORM": [
        *((0, 0), (0, 13), (0, 26), (1, 24), (1, 13), (1, 2), (2, 24), (2, 26), (2, 2), (2, 5)),
        *((3, 0), (3, 8), (3, 3), (3, MANY), (4, INFINITE), (4, -1)),
    ],
    "ROTATE_PLACES": [
        *((0, 24), (0, 26), (0, 13), (1, 9), (1, 19), (2, 24), (2, 13), (3, 24), (3, 26), (3, 19)),
        *((4, 0), (4, 3), (5, 0), (5, 8), (5, 2), (4, MANY), (5, MANY)),
        *((6, 0), (6, 3), (6, 8), (6, 1), (6, MANY), (7, 2)),
    ],
    "ROW_SCALES": [
        *((0, 27), (0, 7), (0, 13), (1, 14), (1, 29), (1, 26), (2, 0), (2, 32), (2, 48), (3, 2)),
        *((2, 128), (2, MANY)),
    ],
    "QUANTIZE_ROWS": [
        *((0, 27), (0, 7), (1, 29), (1, 14), (2, 26), (2, 0), (2, 5), (3, 0), (3, 32), (4, 2)),
        *((0, 13), (1, 13), (2, 3)),
    ],
    "RESCALE_ROWS": [
        *((0, 24), (0, 4), (0, 26), (0, 3), (1, 24), (1, 28), (1, 13), (2, 24), (2, 28), (2, 13)),
        *((3, 24), (3, 26), (3, 13), (4, 0), (4, 2), (4, 3), (4, MANY)),
        *((5, 0), (5, 1), (5, 2), (5, 4), (5, 5), (5, MANY)),
    ],
    "KEEP_ROWS": [
        *((0, 2), (0, 9), (0, 3), (1, 9), (1, 28), (2, 16), (2, 3), (2, 5), (2, 6)),
        *((3, 0), (3, 3), (4, 0), (4, 3), (3, MANY), (4, MANY), (4, 5)),
    ],
    "ATTENTION": [
        *((0, 24), (0, 26), (1, 9), (1, 28), (2, 16), (2, 27), (3, 15), (3, 29)),
        *((4, 18), (4, 27), (5, 17), (5, 29), (6, 24), (6, 26), (6, 21), (7, 15), (7, 28)),
        *((8, 0), (8, 3), (8, 5), (9, 0), (9, 3), (10, 0), (10, 3), (10, 8)),
        *((8, MANY), (9, MANY), (10, MANY), (11, -1), (12, INFINITE)),
    ],
    "GATE": [
        *((0, 24), (0, 26), (0, 13), (1, 24), (1, 29), (1, 13), (2, 0), (2, 7), (2, 24), (2, 13)),
        *((2, 26), (3, 2), (3, -1)),
    ],
}


#: Steps of operators since version 4 in the model of every operator, by name: words that break one
#: rule each, by the word's place behind the step's first; operands come first. Tensors: 0 int8, 2
#: and 7 float32 of 16 elements, 5 constants, 8 of 4, 9 int32 indices, 10 of 12, 11 and 12 of 32,
#: 13 blocked, of 16; 30 six blocked rows of 5, 32 and 33 twelve such, 34 what a gather of twelve
#: makes.
SPOILT: dict[str, list[tuple[int, int]]] = {
    "EXP_FLOAT32": [(0, 0), (0, 8), (1, 0), (1, 5), (1, 2), (0, 99), (0, 13), (1, 13)],
    "ERF_FLOAT32": [(0, 0), (0, 8), (1, 12)],
    "ADD_FLOAT32": [
        *((0, 13), (1, 13), (2, 13)),
        *((0, 0), (1, 0), (2, 0), (0, 7), (1, 7), (2, 8), (2, 5)),  # types, overlaps, elements
        *((3 + k, 0) for k in range(6)),  # extents
        *((3, 2), (7, 3), (3, 1 << 31), (8, 1 << 28)),
        *((13, 5), (14, 2), (14, -1), (19, 2), (20, 2), (20, -1)),  # strides: one step too far
        *((14, (1 << 31) - 1), (20, (1 << 31) - 1)),
    ],
    "POWER_FLOAT32": [(0, 0), (1, 99), (2, 0), (13, 5)],
    "sum": [(0, 0), (1, 0), (1, 7), (2, 0), (2, 3), (3, 0), (3, 3), (2, -1), (3, -4), (0, 11)],
    "matmul": [
        *((0, 0), (1, 0), (2, 0), (0, 2), (1, 11), (2, 2), (0, 12)),
        *((3 + k, 0) for k in range(3)),
        *((3, 5), (4, 5), (5, 5), (6, 1), (7, 0), (6, 2), (7, 2), (3, 1 << 30), (5, 1 << 30)),
    ],
    "gather": [
        *((0, 0), (1, 7), (1, 8), (2, 7), (2, 11), (1, 99), (0, 3), (0, 10), (0, 13)),
        *((3, 0), (4, 0), (3, 3), (4, 3), (3, 8), (4, 8), (3, 1 << 30)),
    ],
    "blocked rows": [
        *((0, 0), (0, 13), (0, 32), (0, 33), (1, 30), (2, 30), (2, 34), (1, 31)),
        *((3, 0), (4, 0), (3, 5), (3, 3), (4, 10), (3, 30), (4, 1)),
    ],
    **ROWS,
}


#: Several words, of which one rule alone sees that they do not belong together: a batch that is no
#: whole number, and places that are real numbers.
TOGETHER: dict[str, list[tuple[int, int]]] = {
    "matmul": [(0, 8), (1, 11), (2, 10), (3, 1), (4, 4), (5, 8), (7, 0)],
    "gather": [(1, 8), (2, 2)],
    "wide words": [(0, 32), (2, 34)],
    "tall words": [(0, 33), (2, 34)],
    "rows by pieces": [(3, 2), (4, 15)],
}


@pytest.mark.parametrize("name", SPOILT)
def test_both_readers_refuse_what_breaks_one_rule_of_a_step(name: str) -> None:
    model = every_operator_model()
    data = model.to_bytes()
    (number,) = (k for k, step in enumerate(model.steps) if step.name == name)
    steps, words = (struct.unpack_from("<I", data, 32 + 8 * k)[0] for k in (5, 6))
    (first,) = struct.unpack_from("<I", data, steps + 16 * number + 4)
    taken = []
    of_it = {"blocked rows": ("wide words", "tall words", "rows by pieces")}.get(name, (name,))
    together = [TOGETHER.get(each, []) for each in of_it]
    for group in [*([change] for change in SPOILT[name]), *together]:
        changed = bytearray(data)
        for place, value in group:
            struct.pack_into("<I", changed, words + 4 * (first + place), value & 0xFFFFFFFF)
        file = sealed(changed)
        if group and (c_accepts(file) or python_accepts(file)):
            taken.append((group, c_accepts(file), python_accepts(file)))
    assert taken == []


@pytest.mark.parametrize(("zero_point", "accepted"), [(-129, False), (-128, True), (128, False)])
def test_a_quantized_tensor_has_a_zero_point_of_its_type(zero_point: int, accepted: bool) -> None:
    model = every_operator_model()
    step = next(
        s for s in model.steps if isinstance(s, HostStep) and s.opcode == HostOpcode.QUANTIZE
    )
    tensors = list(model.tensors)
    (number,) = step.outputs
    assert tensors[number].dtype == DataType.INT8
    tensors[number] = replace(tensors[number], scale=0.7734375, zero_point=101)
    data = bytearray(replace(model, tensors=tuple(tensors)).to_bytes())
    at = data.index(struct.pack("<fi", 0.7734375, 101))
    struct.pack_into("<i", data, at + 4, zero_point)
    file = sealed(data)
    assert (c_accepts(file), python_accepts(file)) == (accepted, accepted)


def test_a_file_cut_anywhere_is_refused_by_c() -> None:
    data = every_operator_model().to_bytes()
    assert not any(c_accepts(data[:size]) for size in range(len(data)))


def test_every_flipped_bit_is_noticed_by_c() -> None:
    data = bytearray(copy_model().to_bytes())
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert not c_accepts(bytes(data)), bit
        data[bit // 8] ^= 1 << bit % 8


#: A session itself, and what the validator works in.
SLACK = 1 << 16


@functools.cache
def sizes_program(bits: int, root: Path) -> Path:
    sources = [root / "tests/c/sizes.c", *board_sources(root)]
    return compile_c(bits, work() / f"sizes-{bits}", sources, includes(root))


def sizes(
    bits: int, root: Path, folder: Path, models: list[Artifact]
) -> list[tuple[int, int, int]]:
    """What tests/c/sizes.c says of each: bytes needed, status with so many (or few), with one
    less."""
    program = sizes_program(bits, root)
    files = [str(folder / f"{k}.lds") for k in range(len(models))]
    for file, model in zip(files, models, strict=True):
        model.save(file)
    lines = run([str(program), *files]).splitlines()
    return [(int(a), int(b), int(c)) for a, b, c in (line.split() for line in lines)]


@pytest.mark.parametrize("bits", LONG_MODES)
def test_memory_beyond_a_size_t_is_refused_and_less_is_kept_to(
    bits: int, root: Path, tmp_path: Path
) -> None:
    """Sums of regions around 2^32, which a size_t of 32 bits would wrap: nothing is written outside
    what was given."""
    random, base, top = np.random.default_rng(1), copy_model(), (1 << bits) - 1
    half, most = 1 << 31, (1 << 32) - 1
    pieces = [
        [(half, 16), (half, 16)],
        [(half, 16), (half + 64, 64)],
        [(most, 1)],
        [(most, 1), (2, 1)],
        [(most, 65536)] * 5,
    ]
    pieces += [[(most - k, 1)] for k in (15, 64, 512, 3000, 13000, 100_000)]
    for _ in range(60):
        count, large = int(random.integers(6)), random.random() < 0.5
        extents = [int(random.integers(1, 1 << 32 if large else 1 << 12)) for _ in range(count)]
        pieces.append([(extent, 1 << int(random.integers(17))) for extent in extents])
    refused = accepted = 0
    for wanted, (size, status, less) in zip(
        pieces,
        sizes(bits, root, tmp_path, [with_host_memory(base, p) for p in pieces]),
        strict=True,
    ):
        needed = sum(extent for extent, _ in wanted)
        assert size == top or needed < size <= needed + sum(align for _, align in wanted) + SLACK
        assert size < top or needed + sum(align for _, align in wanted) + SLACK > top
        fits = size <= 1 << 24
        assert (status, less) == (
            (0, lib().LDS_ERR_MEMORY) if fits else (lib().LDS_ERR_MEMORY,) * 2
        )
        accepted += fits
        refused += size == top
    assert accepted > 20
    assert (refused > 20) == (bits == 32)


@pytest.mark.parametrize("bits", LONG_MODES)
def test_models_run_in_exactly_the_memory_they_ask_for(
    bits: int, root: Path, tmp_path: Path
) -> None:
    models = [
        copy_model(),
        every_operator_model(),
        state_model(bytes(range(16))),
        *(dense_model(load_config(n)).artifact for n in ("vtaq-1x16x16", "vtaq-tiny")),
    ]
    found = sizes(bits, root, tmp_path, models)
    assert {status for _, status, _ in found} == {0}
    assert {less for _, _, less in found} == {lib().LDS_ERR_MEMORY}


@pytest.mark.full
@pytest.mark.rung("2")
@pytest.mark.parametrize("bits", LONG_MODES)
def test_fuzzing_finds_nothing(bits: int, tmp_path: Path, figure: Callable[[str], None]) -> None:
    figure(fuzz(bits, times(2, 60), tmp_path))
