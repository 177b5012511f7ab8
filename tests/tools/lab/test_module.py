# SPDX-License-Identifier: Apache-2.0
"""tools/lab/module.py: what the module is made of, and what it asks of its host. That it works is
shown by tests/lab."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.board.tools import ROOT, need
from tools.lab.module import sources

EXPORTS = """
const { readFileSync } = require("node:fs");
WebAssembly.compile(readFileSync(process.argv[1])).then((module) => console.log(JSON.stringify({
  asks: WebAssembly.Module.imports(module).map(({ module, name }) => `${module}.${name}`),
  gives: WebAssembly.Module.exports(module).map(({ name }) => name) })));
"""


def test_nothing_with_a_thread_is_in_it() -> None:
    files = sources(ROOT)
    names = {path.name for path in files}
    assert {"api.cc", "kernels_wasm.cc", "validate.c", "pool.c", "bench.cc"} <= names
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "pthread" not in text, path
        assert "#include <thread>" not in text, path
        assert "#include <mutex>" not in text, path


def test_it_is_small_and_asks_for_a_clock_alone(lab: Path) -> None:
    need("node", "nodejs")
    module = lab / "lab.wasm"
    done = subprocess.run(
        ["node", "-e", EXPORTS, module], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    # fd_*: what the C library would write an abort's message with
    asked = {"clock_time_get", "fd_close", "fd_seek", "fd_write"}
    assert {name.partition(".")[2] for name in found["asks"]} <= asked
    used = (ROOT / "lab/page/module.mjs").read_text(encoding="utf-8")
    for name in found["gives"]:
        if name.startswith("lab_"):
            assert f"c.{name}" in used, f"{name} is called by nobody"
    assert module.stat().st_size < 450_000
