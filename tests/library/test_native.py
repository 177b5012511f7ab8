# SPDX-License-Identifier: Apache-2.0
"""library/native.py: the library is opened once, and its absence is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.errors import DeviceError
from loadstone.library import native


def test_the_library_is_opened_once() -> None:
    assert native.lib() is native.lib()
    assert native.lib().lds_version() > 0
    assert native.ffi.sizeof("uint64_t") == 8


@pytest.mark.parametrize("missing", ["_HEADER", "_LIBRARY"])
def test_a_library_that_was_not_built_says_what_to_do(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, missing, tmp_path / "none")
    with pytest.raises(DeviceError, match="build it with `make lib`"):
        native.lib.__wrapped__()


def test_what_a_host_s_function_left_in_its_error_is_raised() -> None:
    """Bytes that are no UTF-8 as well."""
    error = native.ffi.new("lds_easy_error *")
    error.text = b"no server \xff"
    native.raise_easy(0, error)
    with pytest.raises(DeviceError, match="^no server \ufffd$"):
        native.raise_easy(-31, error)
