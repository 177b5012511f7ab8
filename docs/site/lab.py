# SPDX-License-Identifier: Apache-2.0
"""The lab in the site, where `make lab` has built it.

In:   build/lab; the site's folder.
Out:  lab/index.html in it, and a link to that on the page about the lab.
Next: mkdocs.yml names this file; tools/lab builds the lab.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

LAB = Path(__file__).resolve().parents[2] / "build/lab"
PAGE = "lab.md"
MARK = "<!-- lab -->"
LINK = '<a href="lab/index.html"><strong>Open the lab</strong></a>'


# --- MkDocs' events -------------------------------------------------------------------------------
def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The link, where the lab will be."""
    if page.file.src_uri != PAGE:
        return markdown
    here = (LAB / "lab.wasm").is_file()
    return markdown.replace(MARK, LINK if here else "This copy of the site has no lab: `make lab`.")


def on_post_build(config: Any, **_: Any) -> None:
    """The lab's files."""
    if not (LAB / "lab.wasm").is_file():
        print("docs: without the lab: make lab")
        return
    shutil.copytree(LAB, Path(config["site_dir"]) / "lab", dirs_exist_ok=True)
