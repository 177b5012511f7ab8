# SPDX-License-Identifier: Apache-2.0
"""Loadstone's accelerators as a delegate of ExecuTorch: parts of a program as artifacts inside its
.pte file.

In:   a program of torch.export, float or quantized by PT2E, that ExecuTorch lowers.
Out:  `LoadstonePartitioner` for to_edge_transform_and_lower; `build` and `load`, the back end of
      ExecuTorch's runtime that runs what it took.
Next: docs/executorch.md shows both.

    partitioner = LoadstonePartitioner(program, "vtaq-1x16x16")
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    Path("net.pte").write_bytes(edge.to_executorch().buffer)
"""

from __future__ import annotations

from loadstone_executorch.library import build, load
from loadstone_executorch.partitioner import LoadstoneBackend, LoadstonePartitioner

__all__ = ["LoadstoneBackend", "LoadstonePartitioner", "build", "load"]
