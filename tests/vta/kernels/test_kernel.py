# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/kernel.py: the stages of a kernel are printed when somebody asks, in their order."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import tirx
from loadstone.vta.kernels.kernel import Kernel


def test_stages_are_made_once_and_when_somebody_asks() -> None:
    asked: list[str] = []
    room = tirx.decl_buffer((4, 1, 16), "int8", name="room", scope="local.inp")
    function = tirx.PrimFunc([], tirx.AllocBuffer(room)).with_attr("global_symbol", "main")

    def functions() -> list[tuple[str, object]]:
        asked.append("functions")
        return [("schedule", function), ("compute", function)]

    kernel = Kernel((), lambda _: None, functions, lambda: (("copies", "func f:\n"),))  # type: ignore[arg-type]
    assert asked == []
    (first, text), *others = kernel.stages
    assert kernel.stages[0] == (first, text) == ("copies", "func f:\n")
    assert [title for title, _ in others] == ["schedule", "compute"]
    assert "room = T.alloc_buffer((4, 1, 16)" in others[0][1]
    assert "annotations" not in others[0][1]
    assert others[0][1].endswith("\n")
    assert asked == ["functions"]
