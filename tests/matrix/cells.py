# SPDX-License-Identifier: Apache-2.0
"""One network by one way: where it lands.

In:   names of a network and of a way.
Out:  Cell: how much of the network's multiply-accumulates the device does, what only Python could
      run, how far its results are from the quantized model's own; or the line that refuses it.
Next: __main__.py and test_matrix.py make the table of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.flop_counter import FlopCounterMode

from loadstone.compiler import Compiled, compile, quantize
from loadstone.errors import LoadstoneError
from loadstone.partition.eager import HOST
from tests.matrix.images import IMAGES
from tests.matrix.sequences import SEQUENCES
from tests.matrix.ways import WAYS, Exported, quietly
from tests.onnx_builder import session

__all__ = ["NETWORKS", "Cell", "cell"]

NETWORKS = {**IMAGES, **SEQUENCES}
DEVICE = "vtaq-1x16x16"
#: Samples that scales come from, and others that results are compared on.
CALIBRATED, COMPARED = 4, 2
#: Characters of an exporter's own error.
MAX_REFUSAL = 160

Array = NDArray[Any]


@dataclass(frozen=True)
class Cell:
    """macs: percent of the network's on the device. off: the largest difference of a result, in
    steps of its quantization, or relative where it is float."""

    network: str
    way: str
    refused: str = ""
    macs: int = 0
    operators: int = 0
    on_host: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    different: int = 0
    elements: int = 0
    relative: float = 0.0

    def __str__(self) -> str:
        if self.refused:
            return "refused"
        return f"{self.macs}%" + ("" if not self.python else f" Python:{len(self.python)}")


@cache
def network(name: str) -> tuple[Any, int, list[Any]]:
    """The network, ready to be exported; its multiply-accumulates; samples."""
    build, shape = NETWORKS[name]
    generator = torch.Generator().manual_seed(3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = build().eval()
        for module in made.modules():
            if isinstance(module, torch.nn.BatchNorm2d | torch.nn.BatchNorm1d):
                torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
                torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    samples = [torch.randn(tuple(shape), generator=generator) for _ in range(CALIBRATED + COMPARED)]
    with quietly(), torch.no_grad():
        program = torch.export.export(made, (samples[0],)).run_decompositions().module()
        with FlopCounterMode(display=False) as counter:
            program(samples[0])
    return made, counter.get_total_flops() // 2, samples


def cell(name: str, way: str) -> Cell:
    """Exported, compiled, run, compared."""
    made, macs, samples = network(name)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with quietly():
                exported = WAYS[way](made, samples[:CALIBRATED], Path(folder))
        except Exception as error:  # whatever an exporter may raise
            said = (str(error).splitlines() or [""])[0]
            return Cell(name, way, f"not exported: {type(error).__name__}: {said}"[:MAX_REFUSAL])
        try:
            compiled, wanted = _compiled(exported, samples[CALIBRATED:], Path(folder))
        except LoadstoneError as error:
            return Cell(name, way, str(error))
        inputs = np.stack([sample.numpy() for sample in samples[CALIBRATED:]])
        return _compared(Cell(name, way), macs, compiled, compiled.run(inputs), wanted)


def _compiled(
    exported: Exported, samples: Sequence[Any], folder: Path
) -> tuple[Compiled, list[list[Array]]]:
    """The network, and what is wanted for each sample."""
    if exported.samples is None:
        assert exported.reference is not None
        found = compile(exported.model, DEVICE)
        return found, [exported.reference(sample.numpy()) for sample in samples]
    quantized = quantize(exported.model, exported.samples)
    found = compile(quantized.module, DEVICE)
    quantized.save(folder / "ours.onnx")
    opened = session(folder / "ours.onnx")
    name = opened.get_inputs()[0].name
    return found, [list(opened.run(None, {name: sample.numpy()})) for sample in samples]


def _compared(
    empty: Cell, macs: int, compiled: Compiled, got: Sequence[Array], wanted: list[list[Array]]
) -> Cell:
    rows = compiled.explain()
    relative, different, elements = 0.0, 0, 0
    for position, ours in enumerate(got):
        want = np.stack([result[position] for result in wanted])
        off = np.abs(ours.reshape(want.shape).astype(np.float64) - want)
        largest = max(float(np.abs(want).max()), 1e-30)
        relative = max(relative, float(off.max()) / largest)
        different += int(np.count_nonzero(off > 1e-5 * largest))
        elements += want.size
    return Cell(
        empty.network,
        empty.way,
        "",
        round(100 * sum(_macs(row) for row in rows if row["where"] != HOST) / max(macs, 1)),
        len(rows),
        tuple(f"{row['kind']} {row['operator']}" for row in rows if row["where"] == HOST),
        tuple(f"{step.name} {step.function}" for step in compiled.python_steps),
        different,
        elements,
        relative,
    )


def _macs(row: Mapping[str, Any]) -> int:
    return int(row["macs"])
