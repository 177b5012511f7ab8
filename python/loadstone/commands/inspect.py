# SPDX-License-Identifier: Apache-2.0
"""`loadstone inspect MODEL.lds`: print the content of an artifact.

In:   an artifact.
Out:  its device, inputs and outputs, memory plan, steps and layers; or JSON.
Next: `loadstone disasm` shows the instructions.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from loadstone.analysis.switching import Switching, switching
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    HostStep,
    MemoryRegion,
    ProgramStep,
)
from loadstone.backend.device import LayerRange
from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.errors import ConfigError, EncodingError
from loadstone.files import JsonObject
from loadstone.printable import one_line

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone inspect model.lds                   device, inputs, outputs, memory, steps
  loadstone inspect model.lds --layers          and how many instructions of which kind each layer has
  loadstone inspect model.lds --layers --uma-backends DIR     also of a plug-in's programs
  loadstone inspect model.lds --json            for scripts
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and --json."""
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL.lds", help="an artifact")
    parser.add_argument(
        "--layers",
        action="store_true",
        help="also the layers of each program, and their instructions by name",
    )
    parser.add_argument(
        "--switches",
        action="store_true",
        help="also how far apart the points are where the device can turn to another network, in "
        "simulated cycles (docs/schedule.md)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends: the names of a plug-in's instructions are in its table."""
    add_plugin_options(parser, words, attributes=False, installed=False)


def run(args: argparse.Namespace) -> None:
    """Prints the artifact."""
    size = Path(args.model).stat().st_size
    artifact = Artifact.load(args.model)
    names = instruction_names(artifact, bool(args.uma_backends)) if args.layers else {}
    found = _switching(artifact) if args.switches else None
    if args.json:
        more = {} if found is None else {"switching": found.to_json()}
        print(json_text({**_as_dict(artifact, size, names), **more}))
        return
    print(text(artifact, size, args.layers, names))
    if found is not None:
        print(f"switches\n  {found}")


def _switching(artifact: Artifact) -> Switching:
    from loadstone.runtime.device import device_of_artifact

    return switching(artifact, device_of_artifact(artifact))


def instruction_names(artifact: Artifact, plugins: bool) -> dict[int, list[str]]:
    """By number of a program's step, the name of each of its instructions. plugins: whether those
    of plug-ins are wanted, for which a plug-in must be there."""
    accelerators = {}
    if plugins:
        from loadstone.runtime.accelerators import accelerators_of

        accelerators = accelerators_of(artifact)
    found = {}
    for number, step in artifact.numbered_programs:
        device = artifact.device_of(step)
        if step.device in accelerators:
            from loadstone.isa.codec import decode

            table = accelerators[step.device].table
            found[number] = [insn.name for insn in decode(table, step.instructions)]
        elif device.has_configuration:
            from loadstone.vta.device.hw_config import config_of
            from loadstone.vta.isa.codec import decode_stream

            with suppress(ConfigError, EncodingError):  # a file from anywhere: it is shown as it is
                config = config_of(device.fingerprint, device.name)
                insns = decode_stream(step.instructions, config)
                found[number] = [type(insn).__name__.lower() for insn in insns]
    return found


def _mix(layer: LayerRange, names: Sequence[str]) -> dict[str, int]:
    """How many instructions of which name a layer has, in the order in which they occur."""
    return dict(Counter(names[layer.first : layer.first + layer.count]))


def _step(step: ProgramStep | HostStep, names: Sequence[str]) -> JsonObject:
    if not isinstance(step, HostStep):
        layers = [
            {
                "name": layer.name,
                "first": layer.first,
                "count": layer.count,
                **({"instructions": _mix(layer, names)} if names else {}),
            }
            for layer in step.layers
        ]
        head = {"kind": "program", "device": step.device, "name": step.name}
        return {**head, "instructions": len(step), "layers": layers}
    fields = {
        "kind": step.opcode.name.lower(),
        "name": step.name,
        "inputs": list(step.inputs),
        "outputs": list(step.outputs),
    }
    return {
        **fields,
        "parameters": dict(step.parameters),
        "function": step.function,
        "attributes": step.attributes,
    }


def _as_dict(a: Artifact, size: int, names: Mapping[int, Sequence[str]]) -> JsonObject:
    return {
        "name": a.name,
        "devices": [
            {"name": d.name, "config_hash": f"0x{d.config_hash:08x}", "attributes": d.attributes}
            for d in a.devices
        ],
        "size_bytes": size,
        "samples": a.samples,
        "inputs": list(a.inputs),
        "outputs": list(a.outputs),
        **({"entries": [vars(entry) for entry in a.entries]} if a.entries else {}),
        "regions": [
            {
                "name": r.name,
                "kind": r.kind.name.lower(),
                "size_bytes": r.size_bytes,
                "reads": r.device_reads,
                "writes": r.device_writes,
            }
            for r in a.regions
        ],
        "tensors": [
            {
                "name": t.name,
                "shape": list(t.shape),
                "dtype": t.dtype.name.lower(),
                "layout": t.layout.name.lower(),
                "region": t.region,
                "offset_bytes": t.offset_bytes,
                "size_bytes": t.size_bytes,
                "scale": t.scale,
                "zero_point": t.zero_point,
            }
            for t in a.tensors
        ],
        "steps": [_step(s, names.get(number, ())) for number, s in enumerate(a.steps)],
    }


def _tensor(t: BufferView) -> str:
    quantized = f"  scale {t.scale:g}, zero point {t.zero_point}" if t.scale else ""
    return f"  {one_line(t.name)}: {t.dtype.name.lower()} {list(t.shape)}{quantized}"


def text(
    a: Artifact,
    size: int,
    layers: bool = False,
    names: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> str:
    """The content as text. names: of instructions, by step."""
    instructions = sum(map(len, a.programs))
    devices = ", ".join(
        f"{one_line(d.name) or 'unknown'} (config {d.config_hash:#010x})" for d in a.at_work
    )
    lines = [
        f"{one_line(a.name)}: {size} bytes for device {devices}, {a.samples} sample(s) a run",
        *(line for number in range(len(a.entry_names)) for line in _ports(a, number)),
        f"memory, {sum(r.size_bytes for r in a.regions)} bytes",
    ]
    lines += [_region_line(index, r) for index, r in enumerate(a.regions)]
    lines.append(f"steps, {instructions} instructions")
    begins = {sum(e.steps for e in a.entries[:k]): e.name for k, e in enumerate(a.entries)}
    for index, step in enumerate(a.steps):
        lines += [f"  entry {one_line(begins[index])}"] if index in begins else []
        if isinstance(step, HostStep):
            lines.append(_host_line(index, step, a))
        else:
            lines += _program_lines(index, step, a, layers, names.get(index, ()))
    return "\n".join(lines)


def _ports(a: Artifact, number: int) -> list[str]:
    """The inputs and outputs of an entry, under its name where it has one."""
    name, own = a.entry_names[number], a.only(number)
    return [
        *([f"entry {one_line(name)}"] if a.entries else []),
        "inputs",
        *(_tensor(own.tensors[i]) for i in own.inputs),
        "outputs",
        *(_tensor(own.tensors[i]) for i in own.outputs),
    ]


def _region_line(index: int, r: MemoryRegion) -> str:
    rights = (("r", r.device_reads), ("w", r.device_writes))
    access = (
        "device " + "".join(letter for letter, on in rights if on) if r.on_device else "host only"
    )
    return (
        f"  {index} {r.kind.name.lower():<10} {r.size_bytes:>10} bytes  {access:<10} "
        f"{one_line(r.name)}"
    )


def _host_line(index: int, step: HostStep, a: Artifact) -> str:
    ins, outs = (
        ", ".join(one_line(a.tensors[i].name) for i in which)
        for which in (step.inputs, step.outputs)
    )
    function = one_line(step.function or step.opcode.name.lower())
    return f"  {index} host    {function}: {ins} -> {outs}"


def _program_lines(
    index: int, step: ProgramStep, a: Artifact, layers: bool, names: Sequence[str]
) -> list[str]:
    """The program, and its layers if requested."""
    device = one_line(a.device_of(step).name)
    head = (
        f"  {index} program {device}: {one_line(step.name)}: {len(step)} instructions, "
        f"{len(step.layers)} layers"
    )
    if not layers:
        return [head]
    return [
        head,
        *(
            f"      {layer.first:>7} + {layer.count:<6} {one_line(layer.name)}{_mix_text(layer, names)}"
            for layer in step.layers
        ),
    ]


def _mix_text(layer: LayerRange, names: Sequence[str]) -> str:
    counts = _mix(layer, names)
    return f": {', '.join(f'{count} {name}' for name, count in counts.items())}" if counts else ""
