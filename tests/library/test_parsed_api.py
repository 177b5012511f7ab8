# SPDX-License-Identifier: Apache-2.0
"""library/parsed_api.py: what the build parsed is what parsing gives, and only that is taken."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from loadstone.library import native, parsed_api

HEADER = "typedef struct point { int x, y; } point; int lds_point(point *p, int count);"


def test_what_is_written_can_be_opened() -> None:
    opened = parsed_api.opened(parsed_api.written(HEADER), HEADER)
    assert opened is not None
    point = opened.new("point *", {"x": 3, "y": 4})
    assert (point.x, point.y) == (3, 4)
    assert opened.sizeof("point") == 8


def test_types_of_another_header_are_not_taken() -> None:
    assert parsed_api.opened(parsed_api.written(HEADER), HEADER.replace("x, y", "y, x")) is None


def test_the_build_parsed_the_header_that_lies_beside_it() -> None:
    header, parsed = (
        resources.files("loadstone").joinpath(name).read_text(encoding="utf-8")
        for name in ("_api.h", "_api.ffi")
    )
    assert parsed_api.opened(parsed, header) is not None


def test_no_process_parses_headers() -> None:
    script = "import sys, loadstone.library.native as n; n.lib().lds_version(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "_cffi_backend" in loaded
    assert not {"cffi", "pycparser"} & set(loaded)


def test_without_it_the_header_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (None, "# of another header\nffi = None\n"):
        path = tmp_path / "_api.ffi"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        monkeypatch.setattr(native, "_PARSED", path)
        parsed = native.parsed_types()
        assert parsed.sizeof("lds_fault") == native.ffi.sizeof("lds_fault")
        assert hasattr(parsed, "cdef")  # cffi's own class, not that of its compiled part
