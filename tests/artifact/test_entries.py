# SPDX-License-Identifier: Apache-2.0
"""artifact/entries.py: several artifacts as the entries of one; content.py: taken out again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.artifact.deploy import Contents
from loadstone.artifact.entries import joined
from loadstone.artifact.format import Artifact, RegionKind
from loadstone.errors import ArtifactError, ConfigError, VerificationError
from tests.sample_model import copy_model, entries_model, state_model

STATE = state_model(bytes(range(16)))
COPY = copy_model()


def test_steps_and_tensors_stand_one_behind_the_other() -> None:
    other = replace(STATE, steps=STATE.steps[:1])
    whole = joined({"both": STATE, "give": other})
    assert [(e.name, e.steps, e.inputs, e.outputs) for e in whole.entries] == [
        ("both", 2, 1, 1),
        ("give", 1, 1, 1),
    ]
    assert whole.inputs == (0, len(STATE.tensors))
    assert whole.steps[2].inputs == (2 + len(STATE.tensors),)
    assert whole.regions == STATE.regions
    assert Artifact.from_bytes(whole.to_bytes()) == whole


def test_an_entry_alone_is_a_model() -> None:
    other = replace(STATE, steps=STATE.steps[:1])
    whole = joined({"both": STATE, "give": other})
    first, second = whole.only(), whole.only(whole.entry_number("give"))
    assert replace(first, tensors=STATE.tensors) == STATE
    assert [whole.tensors[i] for i in second.inputs] == [STATE.tensors[0]]
    assert (len(second.steps), second.entries) == (1, ())
    assert Artifact.from_bytes(second.to_bytes()) == second
    assert STATE.only() is STATE
    assert STATE.entry_names == ("",)
    assert [whole.entry_of(number) for number in range(3)] == ["both", "both", "give"]
    assert STATE.entry_of(1) == ""


def test_regions_have_what_the_largest_needs() -> None:
    small, large = copy_model(), copy_model()
    regions = list(large.regions)
    regions[1] = replace(regions[1], size_bytes=256, align_bytes=128)
    whole = joined({"a": small, "b": replace(large, regions=tuple(regions)), "c": small})
    assert (whole.regions[1].size_bytes, whole.regions[1].align_bytes) == (256, 128)


def test_entries_with_other_states_or_devices_are_refused() -> None:
    moved = replace(STATE.tensors[2], shape=(16,))
    other = replace(STATE, tensors=(*STATE.tensors[:2], moved))
    with pytest.raises(ConfigError, match="entry 'b' has other states than entry 'a'"):
        joined({"a": STATE, "b": other})
    began = state_model(bytes(range(1, 17)))
    with pytest.raises(ConfigError, match="other states"):
        joined({"a": STATE, "b": began})
    device = replace(STATE.devices[0], name="another")
    with pytest.raises(ConfigError, match="programs of other devices"):
        joined({"a": STATE, "b": replace(STATE, devices=(device,))})


def test_entries_that_were_made_wrong_are_an_error_of_the_compiler() -> None:
    longer = replace(COPY, regions=(*COPY.regions, COPY.regions[-1]))
    with pytest.raises(VerificationError, match="^pass entries on .* differ in samples or regions"):
        joined({"both": COPY, "more": longer})
    constants = next(region for region in COPY.regions if region.kind == RegionKind.CONSTANTS)
    data = bytes(byte ^ 255 for byte in constants.data)
    regions = [replace(r, data=data) if r == constants else r for r in COPY.regions]
    with pytest.raises(VerificationError, match="^pass entries on .* disagree about constants"):
        joined({"other": replace(COPY, regions=tuple(regions)), "both": COPY})


def test_what_an_entry_has_brought_is_used_again() -> None:
    first = Contents()
    places = [first.constants.add(data) for data in (b"a" * 70, b"b" * 10, b"c" * 10)]
    first.micro_ops.add(b"u")
    second = Contents(first)
    assert [second.constants.add(d) for d in (b"c" * 10, b"a" * 70, b"b" * 10)] == [
        places[2],
        places[0],
        places[1],
    ]
    new = second.constants.add(b"d")
    assert new == second.constants.end - 64 > places[2]
    assert second.constants.filled().startswith(first.constants.filled())
    assert second.constants.add(b"c" * 10, 4096) % 4096 == 0  # there, but not at such a place
    third = Contents(second)
    assert third.constants.add(b"d") == new
    assert third.constants.add(b"b" * 10) == places[1]
    assert third.micro_ops.add(b"u") == 64  # micro-ops stand where their program names them


@pytest.mark.parametrize(
    ("part", "said"), [("steps", "4 steps"), ("inputs", "2 inputs"), ("outputs", "2 outputs")]
)
def test_entries_that_do_not_divide_the_model_are_refused(part: str, said: str) -> None:
    model = entries_model()
    last = replace(model.entries[-1], **{part: getattr(model.entries[-1], part) + 1})
    with pytest.raises(ArtifactError, match="the model has .*rule R24"):
        replace(model, entries=(*model.entries[:-1], last)).check()
    assert said.split()[0] == str(len(getattr(model, part)))
