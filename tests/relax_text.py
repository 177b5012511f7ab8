# SPDX-License-Identifier: Apache-2.0
"""Text in, text out for passes over Relax.

In:   tests/golden/relax/NAME.before.txt, written by hand: `main` as TVM's script, with `R` for
      Relax; what a pass makes of it.
Out:  the comparison with tests/golden/relax/NAME.after.txt, which --update-golden writes.
Next: the tests of the passes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadstone.passes.log import script
from loadstone.relax.compat import tvm
from loadstone.relax.interface import verify_interface

FOLDER = Path(__file__).parent / "golden" / "relax"
#: What TVM 0.26 writes for a tensor of numbers, and 0.27.
OF_0_26 = ('metadata["relax.expr.Constant"]', 'metadata["ir.GenericConst"]')


def before(name: str) -> Any:
    """The module of a text."""
    from tvm.script import from_source  # the parser is slow to import, and few tests need it

    text = (FOLDER / f"{name}.before.txt").read_text(encoding="utf-8")
    return tvm.IRModule({"main": from_source(text)})


def compare_rewritten(name: str, rewrite: Callable[[Any], Any], update: bool) -> None:
    """Of a rewrite of functions, at whose result its verifier has looked."""
    module = before(name)
    after = tvm.IRModule({"main": rewrite(module["main"])})
    verify_interface(module, after)
    compare_text(name, script(after), update)


def compare_text(name: str, text: str, update: bool) -> None:
    """Holds `text` against the golden one, or writes that."""
    path = FOLDER / f"{name}.after.txt"
    text = text.replace(*OF_0_26).rstrip("\n") + "\n"
    if update:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        f"{path.name} changed: read the difference, then run pytest with --update-golden"
    )
