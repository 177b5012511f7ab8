# SPDX-License-Identifier: Apache-2.0
"""Programs of plug-ins' accelerators in an artifact, as text.

In:   an artifact; the plug-ins that describe its accelerators.
Out:  lines of isa/text.py, the name of a layer in front of its first instruction; addresses as
      @REGION+BYTES.
Next: `loadstone disasm`.
"""

from __future__ import annotations

from collections.abc import Iterator

from loadstone.artifact.format import Artifact
from loadstone.isa.codec import At, TableInsn, decode, instruction_offsets
from loadstone.isa.text import disassemble
from loadstone.printable import one_line
from loadstone.runtime.accelerators import accelerators_of

__all__ = ["table_listing"]


def table_listing(artifact: Artifact) -> Iterator[str]:
    """Every program of a plug-in's accelerator, in order. Raises ConfigError for one that no
    plug-in describes."""
    known = accelerators_of(artifact)
    for where, step in artifact.numbered_programs:
        if step.device not in known:
            continue
        table, code = known[step.device].table, step.instructions
        entry = f" of entry {one_line(own)}" if (own := artifact.entry_of(where)) else ""
        title = f"{one_line(step.name)}{entry}"
        yield f"# {title}: {len(step)} instructions for {known[step.device].name}"
        first = {layer.first: layer.name for layer in step.layers}
        addresses = {(r.offset_bytes, r.bit): r for r in step.relocations}
        offsets = instruction_offsets(table, code).tolist()
        for number, (at, insn) in enumerate(zip(offsets, decode(table, code), strict=True)):
            if number in first:
                yield f"# layer {one_line(first[number])}"
            fields = dict(insn.fields)
            for name, bit in table.places[insn.name].items():
                if (at, bit) in addresses:
                    found = addresses[at, bit]
                    region = artifact.regions[found.region].name
                    fields[name] = At(region, found.addend_bytes)
            yield disassemble(table, [TableInsn(insn.name, fields)]).rstrip("\n")
