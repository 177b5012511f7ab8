# SPDX-License-Identifier: Apache-2.0
"""backend/target_spec.py: targets as text, as JSON and as aliases, without TVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadstone.backend.target_spec import ALIASES, HOSTS, Entry, TargetSpec, parse_target
from loadstone.errors import TargetError


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_what_stands_for_it(alias: str) -> None:
    spec = parse_target(alias)
    assert str(spec) == ALIASES[alias]
    assert parse_target(str(spec)) == spec
    assert parse_target(spec.to_json()) == spec


def test_text_is_accelerators_and_then_a_host() -> None:
    spec = parse_target("npu -a=1 -b=x/y,vtaq-tiny,llvm -mcpu=cortex-a53")
    assert spec.accelerators == (Entry("npu", {"a": "1", "b": "x/y"}), Entry("vtaq-tiny"))
    assert spec.host == Entry("llvm", {"mcpu": "cortex-a53"})
    assert parse_target("npu").host == Entry("llvm")


def test_a_file_names_its_tag(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    spec = parse_target("npu,vtaq-tiny,c")
    path.write_text(json.dumps(spec.to_json()), encoding="utf-8")
    read = parse_target(path)
    assert read == spec
    assert read.tag == "board"


def test_several_texts_are_joined_and_share_a_host() -> None:
    joined = parse_target(["npu", "vtaq-tiny,llvm -mcpu=cortex-a9"])
    assert [entry.name for entry in joined.accelerators] == ["npu", "vtaq-tiny"]
    assert joined.host.attributes == {"mcpu": "cortex-a9"}
    with pytest.raises(TargetError, match="two hosts, c and llvm -mcpu=cortex-a9"):
        parse_target(["npu,c", "vtaq-tiny,llvm -mcpu=cortex-a9"])


@pytest.mark.parametrize(
    "target", ["", [], ",", "npu,", "npu -a", "npu -=1", "npu -a=", "llvm", "npu,c -mtriple=x"]
)
def test_what_means_nothing_is_one_line(target: str | list[str]) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(target)
    assert str(caught.value).startswith("target")
    assert "\n" not in str(caught.value)


def test_hosts_are_those_of_the_table() -> None:
    assert [parse_target(f"npu,{name}").host.name for name in HOSTS] == list(HOSTS)
    assert TargetSpec((Entry("a"),)) == TargetSpec((Entry("a"),), tag="another file")
