# SPDX-License-Identifier: Apache-2.0
"""The file of `loadstone tune`, and what is said of one that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadstone.backend.builtin import backend_for, load_config
from loadstone.backend.tuned_file import (
    Tuned,
    TunedLayer,
    check_all_used,
    read_tuned,
    tuned_choices,
    write_tuned,
)
from loadstone.errors import ConfigError

BACKEND = backend_for(load_config("vtaq-tiny"))
TUNED = Tuned(
    "net",
    "vtaq-tiny",
    BACKEND.schedule_digest,
    100,
    90,
    {"key": {"tile": [1, 2]}},
    (TunedLayer("y", "conv2d", 100, 90, 80, {"tile": [1, 2]}),),
    seed=3,
)


def test_a_file_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    write_tuned(path, TUNED)
    again = read_tuned(path)
    assert (again.choices, again.cycles, again.device) == (TUNED.choices, 90, "vtaq-tiny")
    assert json.loads(path.read_text())["layers"][0]["bound_cycles"] == 80


def test_choices_are_read_and_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    write_tuned(path, TUNED)
    choices = tuned_choices(path, [BACKEND])
    assert choices is not None
    assert choices.record("key") == {"tile": [1, 2]}
    check_all_used(path, choices, "net")
    assert tuned_choices(None, [BACKEND]) is None


def test_another_network_or_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    write_tuned(path, TUNED)
    choices = tuned_choices(path, [BACKEND])
    assert choices is not None
    with pytest.raises(
        ConfigError, match=r"tuned for net: 1 of its 1 choices are for layers that "
    ):
        check_all_used(path, choices, "other")
    other = backend_for(load_config("vta-pynq"))
    with pytest.raises(ConfigError, match=r"tuned for device vtaq-tiny \(.*\), not for vta-pynq"):
        tuned_choices(path, [other])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "tuned.json"),
        ("[]", "it is no file of `loadstone tune`"),
        ('{"format": "loadstone-tuned", "version": 2}', "version 2 is not 1"),
        ('{"format": "loadstone-tuned", "version": 1, "choices": 3}', "no object of records"),
        ('{"format": "loadstone-tuned", "version": 1, "choices": {}}', "are missing"),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "tuned.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said):
        read_tuned(path)
    with pytest.raises(ConfigError, match="No such file"):
        read_tuned(tmp_path / "none.json")
