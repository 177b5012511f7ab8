# SPDX-License-Identifier: Apache-2.0
"""passes/compiler_pass.py: rows become passes that are numbered in their order."""

from __future__ import annotations

from loadstone.passes.compiler_pass import numbered, relax_pass, stage


def test_rows_are_numbered_through_all_stages() -> None:
    first, second, third = numbered(
        *stage(
            "frontend",
            ("import", "frontend", "reads", "a file", "Relax"),
            relax_pass("a", "b", "c", "d"),
        ),
        *stage("program", ("encode", "encode", "makes", "x", "y", "encode.verify")),
    )
    assert [p.file_name for p in (first, second, third)] == [
        "01-frontend-import",
        "02-frontend-a",
        "03-program-encode",
    ]
    assert (first.verifier, third.verifier) == ("", "encode.verify")
    assert (second.does, second.before) == ("c", "d")
    assert second.verifier == "relax.interface.verify_interface"
