# SPDX-License-Identifier: Apache-2.0
"""Files of every format version there has been: read, run and written again, and those that are
older or newer refused in one line.

tests/golden/artifacts holds a file of each, as its first writer left it: it is never made anew.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.content import ModelEntry
from loadstone.artifact.file_layout import OLDEST, VERSION
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.host_step import HostOpcode, gather, on_rows
from loadstone.cli import main
from loadstone.errors import ArtifactError
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import register_accelerator
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from tests.artifact.test_program_step import program_model, with_second
from tests.c.test_readers import c_accepts, sealed
from tests.isa.tables import npu
from tests.sample_model import copy_model

FILES = Path(__file__).parents[1] / "golden" / "artifacts"
X = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 16)


#: Version -> what its file holds.
MODELS = {5: with_second(program_model(), beside=True)}
MODELS[6] = replace(
    MODELS[5],
    regions=(*MODELS[5].regions, MemoryRegion("host", RegionKind.HOST, 64, 8)),
    tensors=(
        *MODELS[5].tensors,
        BufferView("a", (1, 8), DataType.FLOAT32, 1, 0),
        BufferView("b", (1, 8), DataType.FLOAT32, 1, 32),
    ),
    steps=(*MODELS[5].steps, on_rows("gate", HostOpcode.GATE, (2, 2), (3,), (0,))),
)
MODELS[8] = replace(
    MODELS[5],
    regions=(*MODELS[5].regions, MemoryRegion("host", RegionKind.HOST, 192, 64)),
    tensors=(
        *MODELS[5].tensors,
        BufferView("table", (3, 1, 1, 5), DataType.INT8, 1, 0, 0.0, 0, ViewLayout.BLOCKED, 2, 4),
        BufferView("numbers", (2,), DataType.INT32, 1, 64),
        BufferView("rows", (2, 5), DataType.INT8, 1, 128),
    ),
    steps=(*MODELS[5].steps, gather("rows", (2, 3, 4), 3, 5)),
)
MODELS[7] = replace(MODELS[5], entries=(ModelEntry("one", 1, 1, 1), ModelEntry("other", 1, 0, 0)))


def at_version(data: bytes, version: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into("<I", changed, 4, version)
    return sealed(changed)


def test_there_is_a_file_of_every_version_that_is_read() -> None:
    assert sorted(MODELS) == list(range(OLDEST, VERSION + 1))
    assert sorted(int(p.stem[-1]) for p in FILES.glob("*.lds")) == sorted(MODELS)


@pytest.mark.parametrize("version", MODELS)
def test_a_file_is_read_run_and_written_as_it_was(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: npu())
    data = (FILES / f"version{version}.lds").read_bytes()
    assert struct.unpack_from("<I", data, 4) == (version,)
    artifact = Artifact.from_bytes(data)
    assert c_accepts(data)
    assert artifact == MODELS[version]
    assert artifact.to_bytes() == data
    x = np.arange(64, dtype=np.int8).reshape(1, 1, 64)
    with device.open() as dev, dev.load(data) as session:
        (y,) = session.run([x])
    np.testing.assert_array_equal(y.reshape(-1), x.reshape(-1))


def test_since_version_8_a_file_need_not_have_entries() -> None:
    """Of version 7 a table is demanded; where there is none its words of the header are 0."""
    alone = MODELS[8].to_bytes()
    assert not c_accepts(at_version(alone, 7))
    with pytest.raises(ArtifactError, match="R24"):
        Artifact.from_bytes(at_version(alone, 7))
    for word, rule in ((24, "R24"), (28, "R13")):
        changed = bytearray(alone)
        struct.pack_into("<I", changed, word, 1)
        assert not c_accepts(sealed(changed))
        with pytest.raises(ArtifactError, match=rule):
            Artifact.from_bytes(sealed(changed))
    steps = len(MODELS[8].steps)
    model = replace(MODELS[8], entries=(ModelEntry("one", steps, 1, 1),))
    data = model.to_bytes()
    assert struct.unpack_from("<I", data, 4) == (8,)
    assert c_accepts(data)
    assert Artifact.from_bytes(data) == model


@pytest.mark.parametrize("version", [0, 1, OLDEST - 1, VERSION + 1, VERSION + 7, (1 << 32) - 1])
def test_an_older_or_newer_format_is_one_line(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands behind the version: nothing of it is looked at."""
    data = at_version(copy_model().to_bytes(), version)[:200]
    age = "newer" if version > VERSION else "older"
    with pytest.raises(
        ArtifactError, match=f"{age} than what this .* reads, {VERSION}: compile it"
    ):
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


def test_what_the_page_says_is_what_is_read(root: Path) -> None:
    text = (root / "runtime/FORMAT.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d+) \| 0\.\d+\.\d+ \|", text[text.index("## Versions") :], re.M)
    assert [int(number) for number in table] == list(range(1, VERSION + 1))
    assert f"R2: {OLDEST} to {VERSION}" in text
