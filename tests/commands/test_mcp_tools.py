# SPDX-License-Identifier: Apache-2.0
"""commands/mcp_tools.py: names stay below the folder, and answers have a bounded size."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.artifact.format import Artifact
from loadstone.commands.mcp_tools import MAX_CHARACTERS, Folder, bounded, environment
from loadstone.errors import ConfigError
from loadstone.runtime.own_files import is_own, remember
from tests.sample_model import copy_model


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "work/sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "work/out").symlink_to(tmp_path / "secret")
    (tmp_path / "work/up").symlink_to(tmp_path)
    (tmp_path / "work/in").symlink_to(tmp_path / "work/sub")
    return Folder(tmp_path / "work")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("net.onnx", "./net.onnx"),
        ("sub/../net.onnx", "./net.onnx"),
        ("in/net.onnx", "./sub/net.onnx"),
        ("--trust", "./--trust"),
        ("uio:/dev/uio0", "./uio:/dev/uio0"),
        ("-", "./-"),
        ("reference", "./reference"),
    ],
)
def test_a_name_is_a_file_below_the_folder_and_nothing_else(
    folder: Folder, name: str, word: str
) -> None:
    assert folder.path(name) == word


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../secret", "sub/../../secret", "/etc/passwd", "out", "up/secret", "a\0b"],
)
def test_a_file_elsewhere_is_refused(folder: Folder, name: str) -> None:
    with pytest.raises(ConfigError):
        folder.path(name)
    if "/" in name:
        with pytest.raises(ConfigError):
            folder.target(name)


@given(st.lists(st.sampled_from(["..", ".", "sub", "in", "up", "out", "x", ""]), max_size=6))
def test_no_way_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    root = tmp_path_factory.getbasetemp() / "ways"
    if not root.exists():
        (root / "work/sub").mkdir(parents=True)
        (root / "work/up").symlink_to(root)
        (root / "work/in").symlink_to(root / "work/sub")
        (root / "work/out").symlink_to("/etc")
    name = "/".join(parts)
    try:
        word = Folder(root / "work").path(name)
    except ConfigError:
        return
    assert word.startswith("./")
    found = Path(os.path.realpath(root / "work" / word))
    assert found.is_relative_to(os.path.realpath(root / "work"))
    assert found == Path(os.path.realpath(root / "work" / name))


def test_a_target_keeps_its_words_and_its_files_are_below_the_folder(folder: Folder) -> None:
    text = "vtaq-1x16x16 -clock_mhz=250,llvm -mtriple=aarch64-linux-gnu"
    assert folder.target(text) == text
    assert folder.target("mine.json,vta-pynq") == "./mine.json,vta-pynq"
    (folder.root / "mine").write_text("{}")
    assert folder.target("mine,llvm") == "mine,llvm"
    for word in ("vta-pynq -a=/etc/passwd", "vta-pynq -a=x.json", "vta-pynq,../x.json", "out"):
        with pytest.raises(ConfigError):
            folder.target(word)


def test_no_tool_says_trust_or_reads_a_plug_in(folder: Folder) -> None:
    """Whatever the words are, each is a file, a target or a number."""
    hostile = "--trust"
    asked = [
        folder.compile(hostile, hostile, hostile),
        folder.explain(hostile, hostile, "/elsewhere/x.lds"),
        folder.profile(hostile),
        folder.compare(hostile, hostile, hostile),
        folder.conform(hostile, 3),
        folder.disasm(hostile, hostile),
    ]
    for one in asked:
        words = one.words[: one.words.index("--")] if "--" in one.words else one.words
        assert not {"--trust", "--uma-backends"} & set(words)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        Folder(tmp_path / "none")


@given(
    st.lists(st.text(max_size=300), max_size=200),
    st.lists(st.integers(), max_size=60),
    st.integers(0, 220),
)
def test_an_answer_is_bounded_and_its_rows_are_all_to_be_had(
    rows: list[str], other: list[int], first: int
) -> None:
    value = {"name": "n", "rows": rows, "other": other}
    if first > max(len(rows) - 1, 0):
        with pytest.raises(ConfigError, match=f"has {len(rows)} rows"):
            bounded(value, "rows", first)
        return
    text = bounded(value, "rows", first)
    assert len(text) <= MAX_CHARACTERS
    said = json.loads(text)
    shown = said["shown"]
    assert said["rows"] == rows[first : first + shown["count"]]
    assert shown["of"] == len(rows)
    assert shown["count"] > 0 or not rows
    full = other if len(other) <= 20 else {"first": other[:20], "of": len(other)}
    assert said["other"] == full


def test_a_list_is_a_table_and_a_row_that_is_too_long_is_said() -> None:
    assert json.loads(bounded([1, 2], "", 1))["rows"] == [2]
    with pytest.raises(ConfigError, match="row 0 makes an answer of"):
        bounded(["x" * MAX_CHARACTERS], "", 0)
    with pytest.raises(ConfigError, match="first=-1"):
        bounded([1], "", -1)


def test_nothing_is_recorded_and_nothing_known_in_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model: Artifact = copy_model()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remember(model)
    assert is_own(model)
    monkeypatch.setenv("XDG_STATE_HOME", environment(os.environ)["XDG_STATE_HOME"])
    assert not is_own(model)
    remember(model)
    assert not is_own(model)
