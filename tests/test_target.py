"""target.py: a device's name, its file, or a HwConfig."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadstone.errors import ConfigError
from loadstone.target import resolve
from loadstone.vta.hw_config import load_config


def test_name_file_and_config_mean_the_same(tmp_path: Path) -> None:
    config = load_config("vtaq-tiny")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(config.to_json()), encoding="utf-8")
    assert resolve("vtaq-tiny").device == resolve(str(path)).device == resolve(config).device == config


def test_tensors_are_aligned_to_the_largest_tile() -> None:
    assert resolve("vtaq-1x16x16").align_bytes == 256
    assert resolve("vtaq-1x32x32").align_bytes == 1024


def test_what_is_no_device_is_named() -> None:
    with pytest.raises(ConfigError, match="'toaster' is neither built in"):
        resolve("toaster")
