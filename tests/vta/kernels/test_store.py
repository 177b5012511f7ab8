# SPDX-License-Identifier: Apache-2.0
"""store.py: what is read from the folder is what lowering makes, and nothing stale is."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from loadstone.errors import ConfigError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.kernels import store
from loadstone.vta.kernels.from_tir import Kernel, lower
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.conv import PIXEL, ConvSpec
from loadstone.vta.schedule.nest_tir import module
from loadstone.vta.stream.cost import cost_model

DEVICE = load_config("vtaq-tiny")


class Maker:
    """Lowers, and counts how often it was asked."""

    def __init__(self, spec: ConvSpec = PIXEL, config: HwConfig = DEVICE) -> None:
        self.spec, self.config = spec, config
        self.count = 0

    def __call__(self) -> Kernel:
        self.count += 1
        computation = conv.schedule(self.spec, self.config)
        return lower(module(insert_dma_copy(computation, memory_table(self.config))))

    def kept(self) -> Kernel:
        return store.kept(self.spec, self.config, cost_model(self.config), self)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "new" / "kernels"))
    return tmp_path / "new" / "kernels"


def test_a_kernel_is_lowered_once_and_its_stages_are_made_when_they_are_asked_for(
    folder: Path,
) -> None:
    maker = Maker()
    first, second = maker.kept(), maker.kept()
    assert maker.count == 1
    assert (second.parameters, second.source) == (first.parameters, first.source)
    assert second.stages == first.stages
    assert maker.count == 2
    (file,) = folder.iterdir()
    assert file.suffix == ".json"


def test_without_a_folder_each_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store.FOLDER, raising=False)
    maker = Maker()
    maker.kept()
    maker.kept()
    assert maker.count == 2


def test_what_decides_a_kernel_decides_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Maker().kept()
    others = (
        Maker(replace(PIXEL, in_blocks=2)),
        Maker(config=load_config("vtaq-1x16x16")),
        Maker(config=replace(DEVICE, log_inp_buff=DEVICE.log_inp_buff + 1)),
    )
    for other in others:
        other.kept()
        assert other.count == 1
    slow = replace(cost_model(DEVICE), gemm_step=77)
    dear = Maker()
    store.kept(dear.spec, dear.config, slow, dear)
    monkeypatch.setattr(store, "_version", lambda: "another")
    later = Maker()
    later.kept()
    assert (dear.count, later.count) == (1, 1)
    assert len(list(folder.iterdir())) == 6


@pytest.mark.parametrize("spoilt", ["cut", "empty", "bytes", "changed"])
def test_a_file_that_was_not_written_to_its_end_is_written_again(folder: Path, spoilt: str) -> None:
    whole = Maker().kept()
    (file,) = folder.iterdir()
    content = file.read_bytes()
    file.write_bytes(
        {
            "cut": content[:-7],
            "empty": b"",
            "bytes": b"\xff\xfe",
            "changed": content.replace(b"gemm", b"genn"),
        }[spoilt]
    )
    maker = Maker()
    assert maker.kept().source == whole.source
    assert maker.count == 1
    assert file.read_bytes() == content


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="LOADSTONE_KERNELS=.*name a folder"):
        Maker().kept()


def test_a_file_says_what_it_holds(folder: Path) -> None:
    kernel = Maker().kept()
    (file,) = folder.iterdir()
    digest, text = file.read_text().split("\n", 1)
    assert digest == sha256(text.encode()).hexdigest()
    assert json.loads(text) == {"parameters": list(kernel.parameters), "source": kernel.source}


@pytest.mark.parametrize("part", ["folder", "file", "above"])
def test_what_others_may_write_is_not_executed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Kernels are Python: whoever can write one there runs it here."""
    Maker().kept()
    (file,) = folder.iterdir()
    {"folder": folder, "file": file, "above": folder.parent}[part].chmod(0o777)
    store._check_folder.cache_clear()
    with pytest.raises(ConfigError, match="LOADSTONE_KERNELS=.*for others to write, too"):
        Maker().kept()
    monkeypatch.setattr(store.os, "getuid", lambda: 1 << 20)
    {"folder": folder, "file": file, "above": folder.parent}[part].chmod(0o700)
    store._check_folder.cache_clear()
    if folder.stat().st_uid != 0:
        with pytest.raises(ConfigError, match="another user's"):
            Maker().kept()
