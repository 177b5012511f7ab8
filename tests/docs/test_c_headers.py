# SPDX-License-Identifier: Apache-2.0
"""docs/site/c_headers.py: C's ordinary comments become Doxygen's, and Doxygen knows every function
of the headers."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.board.tools import need
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("c_headers", ROOT / "docs/site/c_headers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (
            "/* A file.\n *\n * In:   bytes.\n */\n/* SPDX-License-Identifier: X */\n",
            "/** \\file\n * A file.\n *\n * - **In**: bytes.\n */\n"
            "/* SPDX-License-Identifier: X */\n",
        ),
        ("int a;\n/* Of f. */\nint f();\n", "int a;\n/** Of f. */\nint f();\n"),
        ("enum { A, /* first\n */\n};", "enum { A, /**< first\n */\n};"),
        ("int a;\n/* --- part ---- */\n", "int a;\n/* --- part ---- */\n"),
        ("\n#endif /* X_H */\n", "\n#endif /* X_H */\n"),
        ("\n  /* f(&x); &y */", "\n  /** f(&x); &y */"),
        ("\n/* all: &set; */", "\n/** all: \\&set; */"),
    ],
)
def test_comments_become_doxygens(page: ModuleType, header: str, wanted: str) -> None:
    assert page.as_doxygen(header) == wanted


def test_doxygen_knows_every_function_and_warns_of_nothing(
    page: ModuleType, tmp_path: Path
) -> None:
    need("doxygen", "doxygen")
    done = subprocess.run(
        ["doxygen", "-"],
        input=page.settings(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    pages = "".join(p.read_text(encoding="utf-8") for p in (tmp_path / "c").glob("*_8h.html"))
    text = re.sub("<[^>]*>", "", pages)
    functions = {
        name
        for folder in page.FOLDERS
        for header in (ROOT / folder).glob("*.h")
        for name in re.findall(r"^LDS_\w*EXPORT [^(]*?(\w+)\(", header.read_text(), re.MULTILINE)
    }
    assert len(functions) > 100
    assert {name for name in functions if not re.search(rf"\b{name}\b", text)} == set()
    assert "Whether all of these bytes are in one such piece" in text


class Page:
    """Of MkDocs, as far as the hook looks at it."""

    def __init__(self, name: str) -> None:
        self.file: Any = type("File", (), {"src_uri": name})


def test_the_link_stands_where_doxygen_is(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# C\n\n## lds_easy.h\n\n## b\n"
    monkeypatch.setattr(page.shutil, "which", lambda _: "/usr/bin/doxygen")
    linked = page.on_page_markdown(text, Page("api/c.md"))
    assert linked.count("../c/index.html") == 1
    assert linked.index("index.html") < linked.index("## lds_easy.h")
    assert page.on_page_markdown(text, Page("index.md")) == text
    monkeypatch.setattr(page.shutil, "which", lambda _: None)
    assert page.on_page_markdown(text, Page("api/c.md")) == text
    page.on_post_build({"site_dir": "/nowhere"})
    assert "apt-get install doxygen" in capsys.readouterr().out
