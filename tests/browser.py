# SPDX-License-Identifier: Apache-2.0
"""A page of ours in headless Chromium: the document as it is after its scripts have run.

In:   a file; what stands behind `#`.
Out:  the document as text, the cells of its table, what its body says of itself.
Next: tests of pages; LOADSTONE_SCREENSHOTS names a folder that keeps a picture of each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

__all__ = ["body_data", "browser", "cells", "opened"]

_SECONDS = 300
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser() -> str | None:
    """Chromium's program, where there is one."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def opened(path: Path, fragment: str = "", width: int = 1400) -> str:
    """The document, in a window of this width. Skips the test where there is no Chromium."""
    found = browser()
    if found is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    words = [
        found,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},2600",
    ]
    words += [f"--user-data-dir={path.parent}/chromium", "--virtual-time-budget=5000"]
    url = f"{path.as_uri()}#{fragment}"
    folder = os.environ.get("LOADSTONE_SCREENSHOTS")
    if folder:
        picture = Path(folder).resolve() / f"{path.stem}{re.sub('[^a-z0-9]+', '-', fragment)}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [*words, f"--screenshot={picture}", url],
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    done = subprocess.run(
        [*words, "--dump-dom", url], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    return done.stdout


def cells(document: str, *, visible: bool = False) -> list[list[str]]:
    """The text of every cell of the table's body. visible: of lines that are not hidden alone."""
    body = re.search(r"<tbody>(.*?)</tbody>", document, re.DOTALL)
    assert body is not None, document[-2000:]
    lines = re.findall(r"<tr([^>]*)>(.*?)</tr>", body.group(1), re.DOTALL)
    return [
        [
            unescape(re.sub("<[^>]*>", "", cell)).strip()
            for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.DOTALL)
        ]
        for attributes, line in lines
        if not (visible and "hidden" in attributes)
    ]


def body_data(document: str) -> dict[str, str]:
    """`data-drawn-arena="15"` as {"drawnarena": "15"}."""
    body = re.search(r"<body([^>]*)>", document)
    assert body is not None
    found = re.findall(r'data-([a-z-]+)="([^"]*)"', body.group(1))
    return {name.replace("-", ""): value for name, value in found}
