# SPDX-License-Identifier: Apache-2.0
"""The front end's rewrites, in their order: from an importer's Relax to the canonical form.

In:   an IRModule from an importer.
Out:  the same network in the form that canonical.py describes.
Next: quantization/ for float models, partition/eager.py for quantized ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from loadstone.frontend.canonical import quantized_form
from loadstone.frontend.half import in_single
from loadstone.frontend.layout import channels_last
from loadstone.frontend.names import output_names, with_output_names
from loadstone.frontend.products import with_turned_products
from loadstone.frontend.ranks import two_dimensional
from loadstone.frontend.tables import with_tables
from loadstone.frontend.wide import with_wide_layers
from loadstone.passes.log import PassLog, script
from loadstone.relax.compat import DeadCodeElimination, tvm
from loadstone.relax.interface import verify_interface

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, RelaxFunction

__all__ = ["canonical"]

_Rewrite: TypeAlias = "Callable[[RelaxFunction], RelaxFunction]"

#: Names of passes/table.py, in its order.
_REWRITES: tuple[tuple[str, _Rewrite], ...] = (
    ("single", in_single),
    ("ranks", two_dimensional),
    ("layout", channels_last),
    ("canonical", quantized_form),
    ("tables", with_tables),
    ("products", with_turned_products),
    ("wide", with_wide_layers),
)


def canonical(module: IRModule, log: PassLog | None = None) -> IRModule:
    """The module in canonical form; float parts of it stay as they are. log: of its passes."""
    log = log or PassLog()
    names = output_names(module["main"])
    for name, rewrite in _REWRITES:
        run = partial(_rewritten, rewrite)
        module = log.run(name, run, module, verify=verify_interface, show=script)
    return log.run("names", partial(_named, names), module, verify=verify_interface, show=script)


def _rewritten(rewrite: _Rewrite, module: IRModule) -> IRModule:
    others = {v: f for v, f in module.functions.items() if v.name_hint != "main"}
    return tvm.IRModule({**others, "main": rewrite(module["main"])})


def _named(names: list[str], module: IRModule) -> IRModule:
    """names: of the outputs."""
    made = _rewritten(lambda main: with_output_names(main, names), module)
    return DeadCodeElimination(["main"])(made)
