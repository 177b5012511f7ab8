# SPDX-License-Identifier: Apache-2.0
"""A systolic array that moves data explicitly, and whose accumulators scale: the whole device.

In:   convolutions and dense layers, in runs that follow each other.
Out:  for each run one program of the array's own instructions, of 8, 12 and 16 bytes.
Next: the C runtime checks it, fills its addresses in and starts it; `Systolic.accelerator` is what
      the simulator runs it on.

    loadstone compile net.tflite -t systolic,vtaq-1x16x16 --uma-backends docs/examples/systolic

The device, after Gemmini: `dim` x `dim` multipliers that keep a tile of weights; a scratchpad whose
rows hold `dim` int8; an accumulator whose rows hold `dim` int32. Tensors in memory are (H, W, C),
their channels rounded up to rows of `dim`.

    mvin        address stride rows row             scratchpad[row + i] =
                                                    memory[address + i * stride], for i < rows
    mvin_sums   address stride rows row             accumulator[row + i] = the same
    preload     row                                 weights = scratchpad[row : row + dim]
    compute     row step rows target adds           accumulator[target + i] (+)=
                                                    scratchpad[row + i * step] @ weights
    scale       row zero_point low high rounding    how mvout scales: bias, multiplier and shift
                                                    come from three accumulator rows
    mvout       address stride rows row             memory[address + i * stride] =
                                                    int8(scaled accumulator[row + i])

With `-tokens=1` units wait for tokens, as VTA's do; the compiler sets them. `nop` is the array's.
`instructions` is the table: fields, what they reach, times, and what each instruction means, as
nests. The compiler finds by that which instructions a layer becomes, in which tiles, and gives
these rows; what no instruction means is refused, and goes to the next device. MEANING says in NumPy
what the simulator does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend import Attribute, FromTable
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.queues import chained
from loadstone.isa.state import MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach
from loadstone.numerics import Rounding, rq, wrap_int32

Array = NDArray[Any]
Fields = Mapping[str, int]


# --- the device -----------------------------------------------------------------------------------
def instructions(dim: int, scratchpad_rows: int, sums_rows: int, tokens: int) -> InstructionTable:
    """Fields, what they reach, the unit and its cycles, what they mean."""
    address, stride = Bits("address", 32, address=True), Bits("stride", 24)
    rows, row = Bits("rows", 20, low=1), Bits("row", 20)
    lines = (("rows", "stride"),)
    from_row: dict[str, Any] = {"first": "row", "loops": (("rows", 1),)}

    def mvin(name: str, opcode: int, target: str, size: int) -> InstructionForm:
        reaches = (Reach("dram", "address", lines, size), Reach(target, **from_row, writes=True))
        fields = (address, stride, rows, row)
        meaning = (f"copy({target}[row + i], dram[address + stride*i]) for i<rows",)
        return InstructionForm(name, opcode, fields, 16, "", reaches, "load", meaning=meaning)

    sums = Reach("accumulator", "target", (("rows", 1),), writes=True)
    added = Reach("accumulator", "target", (("rows*adds", 1),))  # what the sums are added to
    compute = (Reach("weights", 0), Reach("scratchpad", "row", (("rows", "step"),)), added, sums)
    values = [Bits(name, 10, signed=True) for name in ("zero_point", "low", "high")]
    scale = (row, *values, Bits("rounding", 2, values=tuple(r.name.lower() for r in Rounding)))
    scaling = (Reach("accumulator", "row", extent=3), Reach("scaling", 0, writes=True))
    far = Reach("dram", "address", lines, dim, writes=True)
    mvout = (Reach("accumulator", **from_row), Reach("scaling", 0), far)
    weights = (Reach("scratchpad", "row", extent=dim), Reach("weights", 0, writes=True))
    fields = (row, Bits("step", 16), rows, Bits("target", 20), Bits("adds", 1))
    kept = (f"copy(weights[k], scratchpad[row + k]) for k<{dim}",)
    product = "gemm(accumulator[target + i], scratchpad[row + step*i], weights[0]) for i<rows"
    products = (
        f"fill(accumulator[target + i] | 0); {product} where adds=0",
        f"{product} where adds=1",
    )
    scales = ("copy(scaling[k], accumulator[row + k]) for k<3",)
    stored = (
        "copy(y[i], accumulator[row + i]); "
        "rq(y[i], scaling[0] | scale.zero_point, scale.low, scale.high, scale.rounding); "
        "copy(dram[address + stride*i], y[i]) for i<rows",
    )
    forms = (
        mvin("mvin", 1, "scratchpad", dim),
        mvin("mvin_sums", 2, "accumulator", 4 * dim),
        InstructionForm("preload", 3, (row,), 8, "", weights, "array", dim, meaning=kept),
        InstructionForm(
            "compute", 4, fields, 12, "", compute, "array", 1, (("rows", 1),), meaning=products
        ),
        InstructionForm("scale", 5, scale, 8, "", scaling, "store", 3, meaning=scales),
        InstructionForm(
            "mvout", 6, (address, stride, rows, row), 16, "", mvout, "store", meaning=stored
        ),
    )
    memories = (
        LocalMemory("scratchpad", scratchpad_rows, dim),
        LocalMemory("accumulator", sums_rows, dim, "int32"),
        LocalMemory("weights", 1, dim * dim, "int32"),
        LocalMemory("scaling", 1, 4 + 3 * dim, "int32"),
    )
    table = InstructionTable("systolic", forms, memories)
    queues, nop = chained("load", "array", "store"), InstructionForm("nop", 7, unit="array")
    return table.ordered_by(queues, nop) if tokens else table


def moved(memory: str) -> Callable[[MachineState, Fields], None]:
    def mvin(state: MachineState, i: Fields) -> None:
        target = state.memory[memory]
        data = state.dram.read(i["address"], target[0].nbytes, i["stride"], i["rows"])
        target[i["row"] : i["row"] + i["rows"]] = data.view(target.dtype)

    return mvin


def preload(state: MachineState, i: Fields) -> None:
    dim = state.memory["scratchpad"].shape[1]
    state.memory["weights"][0] = state.memory["scratchpad"][i["row"] : i["row"] + dim].ravel()


def compute(state: MachineState, i: Fields) -> None:
    data, dim = state.memory["scratchpad"], state.memory["scratchpad"].shape[1]
    sums = state.memory["accumulator"][i["target"] : i["target"] + i["rows"]]
    picked = data[i["row"] + i["step"] * np.arange(i["rows"])].astype(np.float64)
    product = picked @ state.memory["weights"][0].reshape(dim, dim)  # exact: below 2^53
    sums[:] = wrap_int32(i["adds"] * sums.astype(np.int64) + product.astype(np.int64))


def scale(state: MachineState, i: Fields) -> None:
    values = [i[f] for f in ("zero_point", "low", "high", "rounding")]
    state.memory["scaling"][0] = [*values, *state.memory["accumulator"][i["row"] :][:3].ravel()]


def mvout(state: MachineState, i: Fields) -> None:
    (zero, low, high, rounding), lanes = np.split(state.memory["scaling"][0], [4])
    sums = state.memory["accumulator"][i["row"] : i["row"] + i["rows"]]
    limits: dict[str, Any] = {"zero_point": zero, "low": low, "high": high}
    scaled = rq(sums, *lanes.reshape(3, -1), **limits, rounding=Rounding(rounding))
    state.dram.write(i["address"], scaled.astype(np.int8), i["stride"])


MEANING = {"mvin": moved("scratchpad"), "mvin_sums": moved("accumulator"), "preload": preload}
MEANING |= {"compute": compute, "scale": scale, "mvout": mvout}


# --- the back end ---------------------------------------------------------------------------------
class Systolic(FromTable):
    """Layers whose sums of products its instructions mean."""

    name: ClassVar[str] = "systolic"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("dim", 16, "rows and columns of multipliers", range(2, 257)),
        Attribute("scratchpad_rows", 8192, "rows of dim int8", range(1, 2**20)),
        Attribute("accumulator_rows", 1024, "rows of dim int32", range(4, 2**20)),
        Attribute("tokens", 0, "1: units are ordered by tokens", range(2)),
    )

    def __init__(self, **values: int | str | bool) -> None:
        super().__init__(**values)
        sizes = [int(self.attributes[entry.name]) for entry in self.target_attributes]
        dim, *_ = sizes
        table, macs = instructions(*sizes), {"compute": f"rows*{dim**2}"}
        said = "systolic", table, MEANING, self.attributes, Port()
        self.accelerator = Accelerator(*said, queue=8, macs=macs, macs_per_cycle=dim**2)
