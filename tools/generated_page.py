# SPDX-License-Identifier: Apache-2.0
"""The command of a page that is generated: writes it, or says that it is not current.

In:   the page's path, its text, and the command's words.
Out:  the page; with --check exit status 1 when it is not current, and nothing is written.
Next: operators_page.py, schema_page.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from loadstone.files import write_whole

__all__ = ["keep_current"]


def keep_current(program: str, page: Path, text: str, arguments: Sequence[str] | None) -> int:
    """The exit status. program: the module, for --help."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    if page.exists() and page.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/{page.name} is not current" if check else f"wrote {page.name}")
    if not check:
        write_whole(page, text)
    return int(check)
