# SPDX-License-Identifier: Apache-2.0
"""Put a page together: one HTML file with its library, its style, its script and its data inside.

In:   a title, the name of one of our scripts beside this file, data that JSON can hold.
Out:  HTML that needs no network.
Next: analysis/page_data.py and analysis/graph_page.py call it; a browser opens it.

Names in the data come from model files, and may be anything: they stand in JSON inside a script
element in which no `<` is left, and the scripts put them into the page as text, never as HTML.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources

from loadstone.files import JsonObject

__all__ = ["LIBRARIES", "page"]

#: Name of a library -> its files in assets/, styles and scripts. assets/README.md: versions and
#: licences.
LIBRARIES = {
    "uplot": ("uPlot.min.css", "uPlot.iife.min.js"),
    "dagre": ("dagre.min.js",),
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(title: str, script: str, libraries: Sequence[str], data: JsonObject) -> str:
    """The whole page. script: `profile` is profile.js. libraries: keys of LIBRARIES."""
    files = [name for library in libraries for name in LIBRARIES[library]]
    styles = [_asset(f"assets/{name}") for name in files if name.endswith(".css")]
    scripts = [_asset(f"assets/{name}") for name in files if name.endswith(".js")]
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            *(f"<style>{style}</style>" for style in (*styles, _asset("page.css"))),
            "</head><body>",
            f'<script type="application/json" id="data">{text}</script>',
            *(f"<script>{source}</script>" for source in scripts),
            f"<script>{_asset('common.js')}</script>",
            f"<script>{_asset(f'{script}.js')}</script>",
            "</body></html>",
            "",
        )
    )


def _asset(name: str) -> str:
    return resources.files("loadstone.pages").joinpath(name).read_text(encoding="utf-8")
