# SPDX-License-Identifier: Apache-2.0
"""runtime/entries.c: entries of a model, what breaks rule R24, and runs of each in one session."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import ArtifactError, DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime.device import open as open_device
from tests.artifact.test_reader import sealed
from tests.hosts.easy import Easy, EasyError
from tests.hosts.easy import open_device as open_easy
from tests.runtime.test_session import Runtime
from tests.sample_model import copy_model, entries_model

FIRST, X = np.arange(16, dtype=np.int8), np.arange(40, 56, dtype=np.int8).reshape(1, 1, 16)


def found(data: bytes, index: int) -> tuple[int, Any]:
    """(status, entry) of an opened model; the first is that of a file that does not open."""
    model, entry, buffer = ffi.new("lds_model *"), ffi.new("lds_entry *"), ffi.from_buffer(data)
    status = lib().lds_model_open(model, buffer, len(data))
    if status:
        return status, entry
    status = lib().lds_model_entry(model, index, entry)
    name = ffi.string(entry.name).decode() if status == 0 else ""
    numbers = [getattr(entry, f) for f in ("first_step", "steps", "first_input", "inputs")]
    return status, (name, *numbers, entry.first_output, entry.outputs)


def test_each_has_its_part_of_the_model() -> None:
    data = entries_model().to_bytes()
    parts = [found(data, k)[1] for k in range(3)]
    assert parts[0] == ("give", 0, 1, 0, 0, 0, 1)
    assert parts[1] == ("keep", 1, 1, 0, 1, 1, 0)
    assert parts[2] == ("both", 2, 2, 1, 1, 1, 1)
    assert found(data, 3)[0] == lib().LDS_ERR_ARGUMENT


def test_an_older_file_has_one_entry_all_of_it() -> None:
    data = copy_model().to_bytes()
    assert found(data, 0) == (0, ("", 0, 1, 0, 1, 0, 1))
    assert found(data, 1)[0] == lib().LDS_ERR_ARGUMENT


def word(at: int, value: int) -> Callable[[bytearray], None]:
    """Changes a word, counted from the end of the table of entries where `at` is below 0."""

    def change(data: bytearray) -> None:
        place = at
        if at < 0:
            words, size = struct.unpack_from("<II", data, 32 + 8 * 6)
            place = words + size + 4 * at
        struct.pack_into("<I", data, place, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        word(24, 0),  # no entries
        word(24, 2),  # others than the table has
        word(24, 4),  # a table that begins among the words of the last step
        word(24, 1 << 31),
        word(28, 0),  # the first one's steps, otherwise than the table
        word(28, 2),
        word(-4, 1 << 20),  # a name beyond the strings
        word(-4, 2),  # within another
        word(-3, 1),  # steps of the last: too few
        word(-3, 3),  # too many
        word(-3, (1 << 32) - 1),
        word(-2, 0),  # inputs
        word(-2, 2),
        word(-1, 0),  # outputs
        word(-1, (1 << 32) - 1),
        word(-11, 0),  # the first without steps, which the header does not say
    ],
)
def test_both_readers_refuse_what_breaks_the_rule(change: Callable[[bytearray], None]) -> None:
    data = bytearray(entries_model().to_bytes())
    assert found(bytes(data), 0)[0] == 0
    change(data)
    file = sealed(data)
    assert found(file, 0)[0] == lib().LDS_ERR_FORMAT
    with pytest.raises(ArtifactError, match=r"rule R(9|24) "):
        Artifact.from_bytes(file)


def test_entries_of_an_older_version_are_refused() -> None:
    data = bytearray(copy_model().to_bytes())
    for at in (24, 28):
        changed = bytearray(data)
        word(at, 1)(changed)
        assert found(sealed(changed), 0)[0] == lib().LDS_ERR_FORMAT
        with pytest.raises(ArtifactError, match="rule R13 "):
            Artifact.from_bytes(sealed(changed))


def test_a_header_that_says_too_many_steps_runs_what_there_are() -> None:
    """lds_session_start looks at the header alone, which nothing has compared with the table."""
    runtime = Runtime()
    model = runtime.model(entries_model())
    status, session = runtime.open(model)
    assert status == 0
    header = ffi.cast("uint32_t *", model.bytes)
    for said in (5, 1 << 30, (1 << 32) - 1):
        header[7] = said
        assert lib().lds_session_run(session) == 0
        assert lib().lds_session_start_entry(session, 0) == lib().LDS_ERR_FORMAT
    lib().lds_session_close(session)


def test_entries_of_a_session_share_its_state() -> None:
    with open_device("sim") as device, device.load(entries_model()) as session:
        assert np.array_equal(session.run([])[0].reshape(-1), FIRST)
        assert session.run([X], entry="keep") == []
        assert np.array_equal(session.run([], entry="give")[0], X)
        (before,) = session.run([X + 1], entry="both")
        assert np.array_equal(before, X)
        session.ports[1].inputs[0][...] = X[0] + 2
        session.execute("keep")
        session.execute()
        assert np.array_equal(session.outputs[0], X[0] + 2)
        session.reset()
        assert np.array_equal(session.run([])[0].reshape(-1), FIRST)
        with pytest.raises(ArtifactError, match=r"no entry 'chunk': it has 'give', 'keep', 'both'"):
            session.run([], entry="chunk")
        with pytest.raises(DeviceError):
            session.run([X])  # of `give`, which has no input
    with (
        open_device("sim") as device,
        device.load(copy_model()) as session,
        pytest.raises(ArtifactError, match="it has no entries by name"),
    ):
        session.execute("give")


def test_an_entry_that_is_not_there_is_not_started() -> None:
    with open_device("sim") as device, device.load(entries_model()) as session:
        raw = session._session
        assert lib().lds_session_start_entry(raw, 3) == lib().LDS_ERR_ARGUMENT
        assert lib().lds_session_start_entry(ffi.NULL, 0) == lib().LDS_ERR_ARGUMENT
        assert lib().lds_session_start_entry(raw, 1) == 0
        assert lib().lds_session_wait(raw, 1 << 40) == 0


def test_easy_runs_the_entry_that_was_chosen() -> None:
    x, y = np.ascontiguousarray(X), np.zeros((1, 1, 16), np.int8)
    with Easy(entries_model(), open_easy("sim")) as net:
        net.run([], [y])
        assert np.array_equal(y.reshape(-1), FIRST)
        net.choose("keep")
        net.run([x], [])
        net.choose("both")
        net.run([x + 1], [y])
        assert np.array_equal(y, X)
        net.choose("give")
        net.run([], [y])
        assert np.array_equal(y, X + 1)
        with pytest.raises(EasyError, match="has no entry 'chunk'"):
            net.choose("chunk")
