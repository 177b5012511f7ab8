# SPDX-License-Identifier: Apache-2.0
"""docs/notebook.ipynb: its cells run in order, and what they show has a representation."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.mark.full
def test_the_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a notebook does it: the last expression of a cell is shown."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs/notebook.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), cell["id"], "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    reprs = [repr(value) for value in shown if value is not None]
    assert all(len(text) < 400 and "\n" not in text for text in reprs)
    assert [text.split()[0] for text in reprs] == [
        "<quantized",
        "<compiled",
        "<profile",
        "<loadstone",
    ]
    tables = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(tables) == 3
    assert int(names["right"]) >= 17
