# SPDX-License-Identifier: Apache-2.0
"""Doxygen's pages of the public C headers, where Doxygen is installed.

In:   the headers, whose comments are C's ordinary ones; the site's folder.
Out:  c/index.html in it, and a link to that on the page about the headers.
Next: mkdocs.yml names this file; `as_doxygen` is the filter that Doxygen gives each header to.

tests/docs/test_c_headers.py refuses what Doxygen warns of: a comment that it cannot place, a name
that leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("runtime/hosts/include", "runtime/include", "driver/include", "hw_sim/include")
PAGE = "api/c.md"
LINK = (
    "\nWith an index of functions, types and constants: "
    '<a href="../c/index.html">the headers by Doxygen</a>.\n'
)
COMMENT = re.compile(r"/\*(?P<text>.*?)\*/", re.DOTALL)
#: What is written for people who read the file: lines of dashes, the licence.
RULER = re.compile(r"\s(?:---.*|SPDX-.*)", re.DOTALL)

HEADING = re.compile(r"^( \* )(In|Out|Next): +", re.MULTILINE)
#: What Doxygen would read as a sign of HTML: `&name;`.
ENTITY = re.compile(r"&(?=\w+;)")


def as_doxygen(source: str) -> str:
    """A header with its comments as Doxygen wants them: the file's, one before what it is about,
    one behind it."""
    begin = 0
    parts = []
    for match in COMMENT.finditer(source):
        before, text = source[begin : match.start()], match["text"]
        line = source[: match.start()].rpartition("\n")[2]
        if match.start() == 0:
            text = f"* \\file\n *{text}"
        elif RULER.fullmatch(text) or line.lstrip().startswith("#"):
            pass
        else:
            text = f"*<{text}" if line.strip() else f"*{text}"
        text = HEADING.sub(r"\1- **\2**: ", ENTITY.sub(r"\&", text))
        parts += [before, "/*", text, "*/"]
        begin = match.end()
    return "".join([*parts, source[begin:]])


def settings(site: Path) -> str:
    """A Doxyfile."""
    headers = [
        str(p) for f in FOLDERS for p in sorted((ROOT / f).glob("*.h")) if p.name != "lds_api.h"
    ]
    values = {
        "PROJECT_NAME": "Loadstone",
        "PROJECT_BRIEF": '"C headers"',
        "INPUT": " ".join(headers),
        "FILTER_PATTERNS": f'"*.h={sys.executable} {Path(__file__).resolve()}"',
        "OUTPUT_DIRECTORY": str(site),
        "HTML_OUTPUT": "c",
        "STRIP_FROM_PATH": str(ROOT),
        "EXTRACT_ALL": "YES",
        "OPTIMIZE_OUTPUT_FOR_C": "YES",
        "JAVADOC_AUTOBRIEF": "YES",
        "AUTOLINK_SUPPORT": "YES",
        "MACRO_EXPANSION": "YES",
        "EXPAND_ONLY_PREDEF": "YES",
        "PREDEFINED": "LDS_EXPORT= LDS_HAL_EXPORT= LDS_SIM_EXPORT=",
        "SORT_MEMBER_DOCS": "NO",
        "TYPEDEF_HIDES_STRUCT": "YES",
        "SHOW_NAMESPACES": "NO",
        "GENERATE_LATEX": "NO",
        "HAVE_DOT": "NO",
        "QUIET": "YES",
    }
    return "".join(f"{name} = {value}\n" for name, value in values.items())


# --- MkDocs' events -------------------------------------------------------------------------------
def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The link, where the pages will be."""
    there = page.file.src_uri == PAGE and shutil.which("doxygen")
    return markdown.replace("\n## ", f"{LINK}\n## ", 1) if there else markdown


def on_post_build(config: Any, **_: Any) -> None:
    """The pages. Raises RuntimeError with what Doxygen says."""
    if not shutil.which("doxygen"):
        print("docs: without Doxygen's pages of the C headers: apt-get install doxygen")
        return
    site = Path(config["site_dir"])
    done = subprocess.run(
        ["doxygen", "-"], input=settings(site), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"doxygen: {done.stderr}")


if __name__ == "__main__":
    sys.stdout.write(as_doxygen(Path(sys.argv[1]).read_text(encoding="utf-8")))
