# SPDX-License-Identifier: Apache-2.0
"""The memory that a model in C needs on a board: flash, RAM, and the DMA memory within it.

In:   an artifact.
Out:  Footprint, in bytes.
Next: commands/fit.py prints it, and refuses what is too large; commands/export.py writes it into
      the model's header.

Flash contains the model, which is executed in place, and the runtime. RAM contains a session and
the pool of DMA memory: the device's regions and a copy of the instructions. Not included are a
stack of 2 KiB, the board's own code, and the code of steps in C, whose size depends on the
compiler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from loadstone.artifact.file_layout import CODE_ALIGN_BYTES
from loadstone.artifact.format import Artifact, HostStep, RegionKind
from loadstone.artifact.host_step import EXTERNAL_C, HostOpcode
from loadstone.library.native import ffi, lib, raise_for

__all__ = ["REAL_BYTES", "RUNTIME_BYTES", "Footprint", "footprint", "pool_bytes", "session_bytes"]

#: Runtime, validator, operators and a driver, compiled for a Cortex-M55: no more than that
#: (tests/c/test_c.py).
RUNTIME_BYTES = 41 << 9
#: With all operators of real numbers so much more.
REAL_BYTES = 6400
_PAGE = 4096


@dataclass(frozen=True)
class Footprint:
    """model_bytes: the file as an exported project has it. runtime_bytes: at most. arena_bytes: of
    the pool, what activations share. c_steps: functions in C that come with it, whose code is not
    counted."""

    model_bytes: int
    runtime_bytes: int
    session_bytes: int
    pool_bytes: int
    arena_bytes: int
    c_steps: int

    @property
    def flash_bytes(self) -> int:
        """The model, and at most so much of the runtime."""
        return self.model_bytes + self.runtime_bytes

    @property
    def ram_bytes(self) -> int:
        """A session and the pool."""
        return self.session_bytes + self.pool_bytes


def footprint(artifact: Artifact) -> Footprint:
    """Of a model that C runs alone."""
    symbols: set[str] = set()
    steps = []
    for each in artifact.steps:
        step = each
        if isinstance(step, HostStep) and step.function.startswith("loadstone."):
            text = f"{step.function}\n{step.attributes}".encode()
            symbol = f"lds_c_{sha256(text).hexdigest()[:16]}"
            symbols.add(symbol)
            step = replace(step, function=EXTERNAL_C, attributes=symbol)
        steps.append(step)
    data = replace(artifact, steps=tuple(steps)).to_bytes()
    arena = [r.size_bytes for r in artifact.regions if r.kind == RegionKind.ARENA]
    session = session_bytes(data)
    opcodes = [step.opcode for step in steps if isinstance(step, HostStep)]
    real = any(HostOpcode.ARGMAX < opcode < HostOpcode.EXTERNAL for opcode in opcodes)
    runtime = RUNTIME_BYTES + (REAL_BYTES if real else 0)
    return Footprint(len(data), runtime, session, pool_bytes(artifact), sum(arena), len(symbols))


def pool_bytes(artifact: Artifact) -> int:
    """Regions of the device and the stream, each at its alignment, from a multiple of the largest
    on; no less than the C pool needs."""
    total = 0
    for region in artifact.regions:
        if region.on_device:
            total = -(-total // region.align_bytes) * region.align_bytes + region.size_bytes
    for program in artifact.programs:  # one behind the other, each at its own line
        total = -(-total // CODE_ALIGN_BYTES) * CODE_ALIGN_BYTES + len(program.instructions)
    return -(-total // _PAGE) * _PAGE


def session_bytes(data: bytes) -> int:
    """What lds_session_open needs for a file, on this machine: no less than with pointers of 32
    bits."""
    model, config, buffer = (
        ffi.new("lds_model *"),
        ffi.new("lds_session_config *"),
        ffi.from_buffer(data),
    )
    raise_for(lib().lds_model_open(model, buffer, len(data)), "an artifact")
    lib().lds_session_config_default(config)
    return int(lib().lds_session_size_bytes(model, config))
