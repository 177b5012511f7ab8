# SPDX-License-Identifier: Apache-2.0
"""gguf_file.py against the package's own reader; cut and hostile files: one line, and no time."""

from __future__ import annotations

import re
import struct
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

from loadstone.errors import ModelError
from loadstone.frontend.gguf_file import GgufFile
from tests.frontend.gguf_models import tiny
from tests.repeat import times


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("gguf") / "m.gguf", "gemma3")


def test_keys_and_tensors_are_those_of_the_package(tmp_path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(str(tmp_path / "k.gguf"), "llama")
    writer.add_bool("a.bool", True)
    writer.add_float32("a.float", 0.25)
    writer.add_int32("a.int", -5)
    writer.add_uint64("a.long", 1 << 40)
    writer.add_string("a.text", "ä\n")
    writer.add_array("a.texts", ["", "b", "ccc"])
    writer.add_array("a.numbers", [1, -2, 3])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 64)).astype(np.float32)
    kinds = gguf.GGMLQuantizationType
    for kind in (kinds.Q8_0, kinds.Q4_1, kinds.F16, kinds.BF16, kinds.Q4_0):
        writer.add_tensor(kind.name, gguf.quants.quantize(x, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    own = GgufFile((tmp_path / "k.gguf").read_bytes(), "k.gguf")
    reader = gguf.GGUFReader(str(tmp_path / "k.gguf"))
    fields = {n: f.contents() for n, f in reader.fields.items() if not n.startswith("GGUF.")}
    assert own.keys == fields
    assert set(own.tensors) == {t.name for t in reader.tensors}
    for tensor in reader.tensors:
        wanted = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(own.real(tensor.name), wanted)
        assert own.real(tensor.name).shape == (4, 64)


def refused(data: bytes) -> str:
    """What is said of a file; empty where it is read."""
    begin, said = time.process_time(), ""
    try:
        file = GgufFile(data, "m.gguf")
        for name in file.tensors:
            file.real(name)
    except ModelError as error:
        said = str(error)
    assert time.process_time() - begin < 2
    assert "\n" not in said
    assert said == "" or said.startswith("m.gguf: ")
    return said


def test_a_file_cut_anywhere_is_refused(path: Path) -> None:
    data = path.read_bytes()
    assert refused(data) == ""
    end = len(data)
    for size in [*range(0, 3000, 7), end // 2, end - 1]:
        assert refused(data[:size]) != "", size


@pytest.mark.parametrize(
    ("place", "form", "value", "said"),
    [
        (0, "4s", b"GGML", "it does not begin with GGUF"),
        (4, "<I", 1, "version 1 is not 2 or 3"),
        (4, ">I", 3, "is not 2 or 3"),
        (8, "<Q", 1 << 60, "it says 1152921504606846976 tensors"),
        (16, "<Q", 1 << 60, "it says 1152921504606846976 keys"),
        (24, "<Q", 1 << 60, "bytes, and ends before"),
        (24, "<Q", (1 << 64) - 1, "bytes, and ends before"),
    ],
)
def test_hostile_numbers(place: int, form: str, value: object, said: str, path: Path) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, place, value)
    assert said in refused(bytes(data))


def test_hostile_arrays() -> None:
    """Counts that the file cannot hold, and arrays of arrays."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a"
    for inner, count, said in (
        (0, 1 << 60, "numbers, and ends before"),
        (8, 1 << 60, "texts, and ends before"),
        (9, 1, "an array of arrays"),
        (13, 1, "unknown type 13"),
    ):
        data = head + struct.pack("<IIQ", 9, inner, count) + bytes(64)
        assert said in refused(data)
    assert "unknown type 77" in refused(head + struct.pack("<I", 77) + bytes(64))


def test_damaged_bytes_never_raise_anything_else(path: Path) -> None:
    original, random = path.read_bytes(), np.random.default_rng(0)
    end = original.index(b"blk.1.attn_norm")  # the keys, and some of the tensors
    outcomes = set()
    for _ in range(times(300, 5000)):
        data = bytearray(original)
        for _ in range(random.integers(1, 4)):
            data[random.integers(end)] = random.integers(256)
        outcomes.add(bool(refused(bytes(data))))
    assert outcomes == {True, False}


def test_tensors_that_are_not_there(path: Path) -> None:
    file = GgufFile(path.read_bytes(), "m.gguf")
    with pytest.raises(ModelError, match="the tensor 'other' is missing"):
        file.real("other")
    data = path.read_bytes()
    at = data.index(b"output_norm.weight") + len(b"output_norm.weight")
    for offset, form, value, said in (
        (0, "<I", 9, "has 9 axes"),
        (0, "<I", 0, "has 0 axes"),
        (4, "<Q", 0, "has the shape [0]"),
        (4, "<Q", 1 << 50, "lies beyond the file's end"),
        (12, "<I", 99, "unknown encoding 99"),
        (16, "<Q", 1 << 62, "lies beyond the file's end"),
    ):
        changed = bytearray(data)
        struct.pack_into(form, changed, at + offset, value)
        assert said in refused(bytes(changed))


def test_what_is_no_number_is_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    file = GgufFile(bytes(data), "m.gguf")
    struct.pack_into("<f", data, file.tensors["output_norm.weight"].offset, float("nan"))
    assert re.search("'output_norm.weight' holds infinity or what is no number", refused(data))
