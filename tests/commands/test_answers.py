# SPDX-License-Identifier: Apache-2.0
"""commands/answers.py: lines or one value, and no number that JSON does not have."""

from __future__ import annotations

import argparse
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.commands.answers import Steps, answer, json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def without_infinities(value: object) -> object:
    if isinstance(value, list):
        return [without_infinities(entry) for entry in value]
    if isinstance(value, dict):
        return {key: without_infinities(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and (math.isnan(value) or math.isinf(value)) else value


@given(VALUES)
def test_any_value_is_strict_json(value: object) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    assert json.loads(json_text(value), parse_constant=refuse) == without_infinities(value)


@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_is_lines_or_a_value(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    answer(argparse.Namespace(json=as_json), {"a": 1}, ["one", "two"])
    out = capsys.readouterr().out
    assert (json.loads(out) == {"a": 1}) if as_json else (out == "one\ntwo\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_steps_are_said_at_once_or_together(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = Steps(argparse.Namespace(json=as_json))
    steps.done("network", "small")
    assert capsys.readouterr().out == ("" if as_json else "network    small\n")
    steps.done("text", "one\ntwo")
    assert steps.end(equal=False) == 1
    out = capsys.readouterr().out
    if not as_json:
        assert out == "text       one\n           two\n"
        return
    assert json.loads(out) == {
        "steps": [{"step": "network", "said": "small"}, {"step": "text", "said": "one\ntwo"}],
        "equal": False,
    }
