# SPDX-License-Identifier: Apache-2.0
"""From a PrimFunc to loops that C has: TVM's passes, and what the loops store to.

In:   a PrimFunc of TVM (a legalized Relax operator).
Out:  the same as plain loops over flat buffers; the names of the buffers that they write.
Next: c_printer.py writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.relax.compat import s_tir_transform, simplify_blocks, tirx_transform, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, PrimFunc, Stmt

__all__ = ["lowered", "owner", "written"]


def lowered(function: PrimFunc, name: str) -> IRModule:
    """Plain loops over flat buffers."""
    target = tvm.target.Target({"kind": "c"})
    named = function.with_attr("global_symbol", name).with_attr("tirx.noalias", True)
    passes = [
        tirx_transform.BindTarget(target.with_host(target)),
        s_tir_transform.CanonicalizeLoop(),
        s_tir_transform.LowerInitBlock(),
        s_tir_transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir_transform.ConvertBlocksToOpaque(),
        s_tir_transform.CompactBufferAllocation(),
        s_tir_transform.LowerMatchBuffer(),
        simplify_blocks(),
        s_tir_transform.LowerOpaqueBlock(),
        tirx_transform.FlattenBuffer(),
        tirx_transform.NarrowDataType(32),
        tirx_transform.VectorizeLoop(False),
        tirx_transform.StorageRewrite(),
        tirx_transform.UnrollLoop(),
        s_tir_transform.RenormalizeSplitPattern(),
        tirx_transform.StmtSimplify(),
        tirx_transform.RemoveNoOp(),
        s_tir_transform.RewriteUnsafeSelect(),
    ]
    return tvm.ir.transform.Sequential(passes)(tvm.IRModule({name: named}))


def owner(data: Expr) -> Expr:
    """The buffer that a view is of: tirx.buffer_data(buffer), or itself."""
    return data if type(data).__name__ == "Var" else data.args[0]


def written(body: Stmt) -> set[str]:
    """Names of the buffers that are stored to, through their views as well."""
    views: dict[str, str] = {}
    names: set[str] = set()

    def walk(node: Stmt) -> None:
        if type(node).__name__ == "DeclBuffer":
            views[str(node.buffer.name)] = str(owner(node.data).name)
        if type(node).__name__ == "BufferStore":
            names.add(str(node.buffer.name))
        for inside in ("body", "then_case", "else_case"):
            if getattr(node, inside, None) is not None:
                walk(getattr(node, inside))
        for entry in getattr(node, "seq", ()):
            walk(entry)

    walk(body)
    return names | {owner for view, owner in views.items() if view in names}
