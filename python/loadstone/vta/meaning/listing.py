# SPDX-License-Identifier: Apache-2.0
"""A file with instructions in it, as text that people read and isa/asm.py assembles.

In:   a path: an artifact (.lds), a vector in the format of vta_rtl (.npz: `insns`, and `dram_in`,
      `dram_base` if there), or instruction bytes.
Out:  Programs; the lines of a listing, with the micro-ops where the file holds them.
Next: `loadstone disasm`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import MAGIC, Artifact
from loadstone.errors import ArtifactError, EncodingError, LoadstoneError, SimulationError
from loadstone.printable import one_line
from loadstone.vta.device.hw_config import HwConfig, config_of, load_config
from loadstone.vta.isa.asm import disassemble
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Alu, Depthwise, Gemm, Insn, Load
from loadstone.vta.isa.spec import INSN_BYTES, Capability, Memory
from loadstone.vta.meaning.reference import DramBytes, Machine

__all__ = ["DEFAULT_DEVICE", "Program", "listing", "programs_of"]

#: The device of files that do not say for which they are.
DEFAULT_DEVICE = "vta-pynq"
_SHOWN_UOPS = 3


@dataclass(frozen=True)
class Program:
    """A stream of instructions and what is known with it. layers: first instruction -> name. entry:
    that of the artifact which it belongs to, by name."""

    name: str
    config: HwConfig
    instructions: NDArray[np.uint8] | bytes
    regions: Sequence[DramBytes] = ()
    layers: Mapping[int, str] = field(default_factory=dict)
    entry: str = ""


def programs_of(data: bytes, name: str, device: str | None = None) -> list[Program]:
    """The programs in a file's bytes. `device`: a name or JSON file; for an artifact it must be the
    artifact's own.

    Raises LoadstoneError with the file's name in it.
    """
    if data.startswith(MAGIC):
        return _of_artifact(data, name, device)
    config = load_config(device or DEFAULT_DEVICE)
    if data.startswith(b"PK"):
        return [_of_vector(data, name, config)]
    return [Program(name, config, data)]


def _of_artifact(data: bytes, name: str, device: str | None) -> list[Program]:
    try:
        artifact = Artifact.from_bytes(data)
    except ArtifactError as error:
        raise ArtifactError(f"{name}: {error}") from None
    config = config_of(artifact.fingerprint, artifact.device)
    if device is not None and load_config(device).fingerprint() != artifact.fingerprint:
        raise ArtifactError(
            f"{name} is for device {config.name} (config hash 0x{config.config_hash:08X}), "
            f"not for {device} (0x{load_config(device).config_hash:08X})"
        )
    regions = [
        DramBytes(
            np.frombuffer(r.data + bytes(r.size_bytes - len(r.data)) if r.data else b"", np.uint8)
        )
        for r in artifact.regions
    ]
    configs = {
        number: config_of(said.fingerprint, said.name)
        for number, said in enumerate(artifact.devices)
        if said.has_configuration
    }
    found = [(n, p) for n, p in artifact.numbered_programs if p.device in configs]
    return [
        Program(
            p.name,
            configs[p.device],
            p.instructions,
            regions,
            {layer.first: layer.name for layer in p.layers},
            artifact.entry_of(number),
        )
        for number, p in found
    ]


def _of_vector(data: bytes, name: str, config: HwConfig) -> Program:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as vector:
            if "insns" not in vector:
                raise LoadstoneError(
                    f"{name}: has no array `insns`, but {', '.join(vector) or 'none at all'}"
                )
            insns = vector["insns"]
            if insns.dtype != np.uint8 or insns.ndim != 2 or insns.shape[1] != INSN_BYTES:
                raise LoadstoneError(
                    f"{name}: `insns` is {insns.dtype} {insns.shape}, not uint8 (N, {INSN_BYTES})"
                )
            known = {"dram_in", "dram_base"} <= set(vector) and vector["dram_in"].dtype == np.uint8
            return Program(
                name,
                config,
                insns,
                [DramBytes(vector["dram_in"], int(vector["dram_base"]))] if known else [],
            )
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError) as error:
        raise LoadstoneError(f"{name}: is no sound .npz file: {error}") from None


def listing(program: Program) -> Iterator[str]:
    """The lines of one program. Raises EncodingError for bytes that are no instructions of the
    device."""
    try:
        stream = decode_stream(program.instructions, program.config)
    except EncodingError as error:
        raise EncodingError(f"{program.name}: {error}") from None
    device = one_line(program.config.name)
    entry = f" of entry {one_line(program.entry)}" if program.entry else ""
    yield f"# {one_line(program.name)}{entry}: {len(stream)} instructions for {device}"
    lines = disassemble(stream, _micro_op_notes(program))
    for number, line in enumerate(lines):
        if number in program.layers:
            yield f"# layer {one_line(program.layers[number])}"
        yield line


def _micro_op_notes(program: Program) -> Callable[[Insn], str]:
    """A comment for GEMM, DEPTHWISE and ALU: the micro-ops they use, where all of them were loaded
    from bytes that the file holds."""
    loading = program.config.capabilities | Capability.REGIONS | Capability.LOAD_ACC8
    machine = Machine(replace(program.config, capabilities=loading), program.regions)
    known = np.zeros(len(machine.uop), bool)

    def note(insn: Insn) -> str:
        if isinstance(insn, Load) and insn.memory_id == Memory.UOP and not insn.is_noop:
            rows, width = (
                insn.y_pad_0 + insn.y_size + insn.y_pad_1,
                insn.x_pad_0 + insn.x_size + insn.x_pad_1,
            )
            loaded = known[insn.sram_base : insn.sram_base + rows * width]
            try:
                machine.step(insn)
                loaded[:] = True
            except SimulationError:
                loaded[:] = False
        if (
            isinstance(insn, Gemm | Depthwise | Alu)
            and insn.steps
            and insn.uop_end <= len(known)
            and known[insn.uop_bgn : insn.uop_end].all()
        ):
            return _note(machine.uop[insn.uop_bgn : insn.uop_end], insn)
        return ""

    return note


def _note(uops: NDArray[np.int64], insn: Gemm | Depthwise | Alu) -> str:
    memories = ["acc", "acc"] if isinstance(insn, Alu) else ["acc", "inp", "wgt"]
    if insn.use_imm if isinstance(insn, Alu) else isinstance(insn, Gemm) and insn.reset:
        del memories[1:]
    shown = [
        f"u{insn.uop_bgn + k}: "
        + " ".join(f"{memory}[{index}]" for memory, index in zip(memories, uop, strict=False))
        for k, uop in enumerate(uops[:_SHOWN_UOPS].tolist())
    ]
    return "; ".join(shown) + (f"; ... {len(uops)} in all" if len(uops) > _SHOWN_UOPS else "")
