# SPDX-License-Identifier: Apache-2.0
"""passes/compiler_pass.py: passes are numbered through all stages, and named in dumps by that."""

from __future__ import annotations

from loadstone.passes.compiler_pass import numbered, relax_pass, stage


def test_passes_are_numbered_through_all_stages() -> None:
    made = numbered(
        *stage("frontend", relax_pass("import", "frontend.load", "reads a file", "a file")),
        *stage("operator", ("tile", "tile", "cuts", "whole axes", "tiles"), ("copy",) + ("",) * 4),
    )
    assert [(one.number, one.stage, one.name) for one in made] == [
        (1, "frontend", "import"),
        (2, "operator", "tile"),
        (3, "operator", "copy"),
    ]
    assert [one.file_name for one in made] == [
        "01-frontend-import",
        "02-operator-tile",
        "03-operator-copy",
    ]
    assert [one.verifier for one in made] == ["relax.interface.verify_interface", "", ""]


def test_a_pass_on_relax_keeps_the_interface() -> None:
    (made,) = numbered(*stage("frontend", relax_pass("fold", "frontend.fold", "folds", "Relax")))
    assert made.before == "Relax"
    assert "well-formed Relax" in made.after
