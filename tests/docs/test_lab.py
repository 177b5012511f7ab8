# SPDX-License-Identifier: Apache-2.0
"""docs/site/lab.py: the site has the lab where `make lab` built it, and says where not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.conftest import ROOT

PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="lab.md"))


@pytest.fixture
def hook(tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lab", ROOT / "docs/site/lab.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.LAB = tmp_path / "lab"  # type: ignore[attr-defined]
    return module


def test_the_page_has_a_place_for_the_link(hook: ModuleType) -> None:
    assert (ROOT / "docs" / hook.PAGE).read_text(encoding="utf-8").count(hook.MARK) == 1


def test_a_site_without_the_lab_says_so(
    hook: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = hook.on_page_markdown(f"a\n{hook.MARK}\nb", PAGE)
    assert said == "a\nThis copy of the site has no lab: `make lab`.\nb"
    hook.on_post_build({"site_dir": tmp_path / "site"})
    assert capsys.readouterr().out == "docs: without the lab: make lab\n"


def test_the_lab_is_copied_and_linked(hook: ModuleType, tmp_path: Path) -> None:
    hook.LAB.mkdir()
    for name in ("lab.wasm", "index.html"):
        (hook.LAB / name).write_text(name)
    assert 'href="lab/index.html"' in hook.on_page_markdown(hook.MARK, PAGE)
    other = SimpleNamespace(file=SimpleNamespace(src_uri="isa.md"))
    assert hook.on_page_markdown(hook.MARK, other) == hook.MARK
    hook.on_post_build({"site_dir": tmp_path / "site"})
    assert (tmp_path / "site/lab/index.html").read_text() == "index.html"
