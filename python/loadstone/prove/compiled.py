# SPDX-License-Identifier: Apache-2.0
"""An artifact as a proof reads it: memory, tensors, and steps in their order.

In:   an Artifact.
Out:  CompiledArtifact: programs with their devices and instructions, steps of the host.
Next: proof.py executes the steps on symbols.

This is the one file that knows how artifacts are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loadstone.artifact.format import Artifact, BufferView, DataType, HostStep, RegionKind
from loadstone.prove.memory import SymbolDram
from loadstone.prove.verdict import Unsupported
from loadstone.vta.device.hw_config import HwConfig, config_of
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Insn
from loadstone.vta.isa.spec import Memory

__all__ = ["CompiledArtifact", "ProgramOfProof"]


@dataclass(frozen=True)
class ProgramOfProof:
    """Instructions in their order, and the device that they are for."""

    name: str
    config: HwConfig
    instructions: list[Insn]


class CompiledArtifact:
    """What a proof takes of an artifact."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact

    @property
    def inputs(self) -> list[BufferView]:
        """Tensors that the caller writes. Raises Unsupported for those of several samples."""
        if self._artifact.samples > 1:
            raise Unsupported(
                f"a run takes {self._artifact.samples} samples, one in each row of a tile, and a "
                "proof is of one: compile the model for a device whose tiles have one row"
            )
        return [self._artifact.tensors[k] for k in self._artifact.inputs]

    @property
    def outputs(self) -> list[BufferView]:
        """Tensors that the caller reads."""
        return [self._artifact.tensors[k] for k in self._artifact.outputs]

    @staticmethod
    def is_uint8(tensor: BufferView) -> bool:
        """Whether its bytes are levels of uint8. Raises Unsupported for what is no byte."""
        if tensor.dtype not in (DataType.INT8, DataType.UINT8):
            raise Unsupported(f"tensor {tensor.name} of {tensor.dtype.name.lower()}")
        return tensor.dtype == DataType.UINT8

    def tensors(self, numbers: tuple[int, ...]) -> list[BufferView]:
        """Tensors by number."""
        return [self._artifact.tensors[k] for k in numbers]

    def dram(self) -> SymbolDram:
        """Memory before the first step. Raises Unsupported for states, which a run leaves to the
        next one."""
        dram = SymbolDram()
        for number, region in enumerate(self._artifact.regions):
            if region.kind == RegionKind.STATE:
                raise Unsupported(f"region {region.name}, which a run leaves to the next one")
            if region.kind == RegionKind.CONSTANTS:
                dram.constants(number, region.data)
            else:
                dram.empty(number, region.size_bytes)
        return dram

    def cells(self, config: HwConfig) -> dict[str, int]:
        """Cells of all memories that instructions of a device name (tokens.py)."""
        tile_bytes = config.tile_bytes(Memory.OUT)
        sizes = {m.name: config.depth(m) for m in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)}
        for number, region in enumerate(self._artifact.regions):
            sizes[f"region {number}"] = -(-region.size_bytes // tile_bytes)
        return sizes

    def steps(self) -> Iterator[ProgramOfProof | HostStep]:
        """All steps in their order. Raises Unsupported for a program of another kind of device."""
        for step in self._artifact.steps:
            if isinstance(step, HostStep):
                yield step
                continue
            if step.beside:
                raise Unsupported(f"step {step.name}: a program that runs beside another one")
            device = self._artifact.device_of(step)
            if not device.has_configuration:
                raise Unsupported(
                    f"step {step.name}: a program of {device.name}, and VTA's are covered"
                )
            config = config_of(device.fingerprint, device.name)
            if config.is_float:
                raise Unsupported(f"step {step.name}: a program of bfloat16")
            instructions = list(decode_stream(step.instructions, config))
            yield ProgramOfProof(step.name, config, instructions)
