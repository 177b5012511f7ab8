# SPDX-License-Identifier: Apache-2.0
"""Files of every format version there has been: read, run and written again, and those that are
older or newer refused in one line.

tests/golden/artifacts holds a file of each, as its first writer left it: it is never made anew.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.file_layout import OLDEST, VERSION, WITH_PROGRAMS, WITH_REAL, WITH_TYPES
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.host_step import HostOpcode
from loadstone.artifact.writer import least_version
from loadstone.backend.device import NO_DEVICE
from loadstone.cli import main
from loadstone.errors import ArtifactError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from tests.artifact.test_program_step import program_model
from tests.c.test_readers import c_accepts, python_accepts, sealed
from tests.sample_model import copy_model, state_model

FILES = Path(__file__).parents[1] / "golden" / "artifacts"
X = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 16)


def wide_model() -> Artifact:
    """A copy of four float64, by the host."""
    regions = tuple(MemoryRegion(n, RegionKind.HOST, 64, 8) for n in ("in", "out"))
    tensors = tuple(BufferView(n, (1, 4), DataType.FLOAT64, k, 0) for k, n in enumerate("xy"))
    whole, own = host_step.Strided((1,)), NO_DEVICE
    step = host_step.copy("copy", 0, 1, (4,), whole, whole)
    return Artifact("wide", own.fingerprint(), 1, regions, tensors, (0,), (1,), (step,), own.name)


def real_model() -> Artifact:
    """Twice four float32, by the host."""
    regions = tuple(MemoryRegion(n, RegionKind.HOST, 64, 8) for n in ("in", "out"))
    tensors = tuple(BufferView(n, (1, 4), DataType.FLOAT32, k, 0) for k, n in enumerate("xy"))
    rows, own = (1,), NO_DEVICE
    add = host_step.broadcast("add", HostOpcode.ADD_FLOAT32, (0, 0, 1), (4,), (rows, rows))
    return Artifact("real", own.fingerprint(), 1, regions, tensors, (0,), (1,), (add,), own.name)


#: Version -> what its file holds.
MODELS = {
    1: copy_model(),
    2: state_model(bytes(range(16))),
    3: wide_model(),
    4: real_model(),
}


def at_version(data: bytes, version: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into("<I", changed, 4, version)
    return sealed(changed)


def test_there_is_a_file_of_every_version_that_is_read() -> None:
    """And every version back to two before the newest is read: runtime/FORMAT.md, Versions."""
    assert sorted(MODELS) == list(range(OLDEST, VERSION + 1))
    assert sorted(int(p.stem[-1]) for p in FILES.glob("*.lds")) == sorted(MODELS)
    assert max(VERSION - 2, 1) >= OLDEST


@pytest.mark.parametrize("version", MODELS)
def test_an_older_file_is_read_run_and_written_as_it_was(version: int) -> None:
    data = (FILES / f"version{version}.lds").read_bytes()
    assert struct.unpack_from("<I", data, 4) == (version,)
    artifact = Artifact.from_bytes(data)
    assert c_accepts(data)
    assert artifact == MODELS[version]
    assert artifact.to_bytes() == data
    state = np.arange(16, dtype=np.int8).reshape(1, 1, 16)
    x = X if version < WITH_TYPES else np.ones((1, 1, 4), "d" if version == WITH_TYPES else "f")
    with device.open() as dev, dev.load(data) as session:
        (y,) = session.run([x.reshape(1, *session.inputs[0].shape)])
    np.testing.assert_array_equal(
        y.reshape(-1), (state if version == 2 else 2 * x if version == 4 else x).reshape(-1)
    )


@pytest.mark.parametrize("version", [0, VERSION + 1, VERSION + 7, (1 << 32) - 1])
def test_an_older_or_newer_format_is_one_line(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands behind the version: nothing of it is looked at."""
    data = at_version(copy_model().to_bytes(), version)[:200]
    age = "newer" if version else "older"
    with pytest.raises(ArtifactError, match=f"{age} than what this .* reads, 1 to 4: compile it"):
        Artifact.from_bytes(data)
    buffer = ffi.from_buffer(data)
    status = lib().lds_model_open(ffi.new("lds_model *"), buffer, len(data))
    assert status == lib().LDS_ERR_VERSION
    said = ffi.string(lib().lds_status_text(status)).decode()
    assert said == "the artifact's format is older or newer than what this runtime reads: " + (
        "compile it again"
    )
    (tmp_path / "m.lds").write_bytes(data)
    np.savez(tmp_path / "x.npz", in0=X)
    assert main(["run", f"{tmp_path}/m.lds", "--inputs", f"{tmp_path}/x.npz"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "compile it again" in err


def test_a_file_says_the_least_version_and_no_less() -> None:
    """An older reader would not know what is in it; and a bit of the number that has flipped is
    noticed."""
    for model, least in (
        (copy_model(), OLDEST),
        (state_model(), WITH_PROGRAMS),
        (program_model(), WITH_PROGRAMS),
        (real_model(), WITH_REAL),
        *((typed(dtype), WITH_TYPES if dtype > DataType.BFLOAT16 else 1) for dtype in DataType),
    ):
        data = model.to_bytes()
        assert least_version(model) == least
        assert struct.unpack_from("<I", data, 4) == (least,)
        for version in range(1, VERSION + 1):
            file = at_version(data, version)
            assert python_accepts(file) == c_accepts(file) == (version == least)


def typed(dtype: DataType) -> Artifact:
    model = wide_model()
    tensors = tuple(dataclasses.replace(t, dtype=dtype) for t in model.tensors)
    return dataclasses.replace(model, tensors=tensors)


def test_what_the_page_says_is_what_is_read(root: Path) -> None:
    text = (root / "runtime/FORMAT.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d+) \| 0\.\d+\.\d+ \|", text[text.index("## Versions") :], re.M)
    assert [int(number) for number in table] == sorted(MODELS)
    assert f"R2: {OLDEST} to {VERSION}, and" in text
