"""Every source file says its licence: tests/licences.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import licences
from tests.conftest import ROOT


def test_every_file_that_may_hold_a_comment_says_its_licence() -> None:
    assert len(licences.tracked()) > 100
    found = [path.relative_to(ROOT).as_posix() for path in licences.missing()]
    assert found == [], "python -m tests.licences --write"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.c", "int x;\n", "/* SPDX-License-Identifier: Apache-2.0 */\nint x;\n"),
        (
            "b.h",
            "/* A\n * B */\n\n",
            "/* A\n * B */\n/* SPDX-License-Identifier: Apache-2.0 */\n\n",
        ),
        ("run", "#!/bin/sh\n:\n", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n:\n"),
        ("Makefile", "", "# SPDX-License-Identifier: Apache-2.0\n"),
    ],
)
def test_the_line_is_written_first(tmp_path: Path, name: str, before: str, after: str) -> None:
    (tmp_path / name).write_text(before)
    licences.write(tmp_path / name)
    assert (tmp_path / name).read_text() == after
