# SPDX-License-Identifier: Apache-2.0
"""`loadstone compile --format litert|onnx`: model files of other programs that carry artifacts.

In:   the arguments of `compile`.
Out:  a .tflite or .onnx file, a summary of it.
Next: hosts/litert.py and hosts/onnxruntime.py make them; LiteRT's and ONNX Runtime's plug-ins run
      them.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.commands.answers import json_text
from loadstone.commands.plugin_options import target_of
from loadstone.errors import ConfigError
from loadstone.files import JsonObject

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

__all__ = ["ARTIFACT", "add_format", "compile_for_host"]

#: The format of an artifact that is not for another program.
ARTIFACT = "lds"
#: Format -> the module that writes it, and the suffix of its files.
_HOSTS = {
    "litert": ("loadstone.hosts.litert", ".tflite"),
    "onnx": ("loadstone.hosts.onnxruntime", ".onnx"),
}


def add_format(group: _ArgumentGroup) -> None:
    """Adds --format."""
    group.add_argument(
        "--format",
        choices=(ARTIFACT, *_HOSTS),
        default=ARTIFACT,
        help="lds (default): an artifact; litert: a .tflite file with artifacts, for LiteRT; "
        "onnx: a .onnx file with artifacts, for ONNX Runtime",
    )


def compile_for_host(args: argparse.Namespace) -> None:
    """Compiles, writes the file, and prints the requested results. Raises ConfigError for options
    that apply to artifacts only."""
    module, suffix = _HOSTS[args.format]
    given = {
        "--data": args.data,
        "--dump": args.dump,
        "--dump-after": args.dump_after,
        "--costs": args.costs,
        "--tuned": args.tuned,
        "--max-flash": args.max_flash,
        "--max-ram": args.max_ram,
        "--prove": args.prove,
        "--switch-within": args.switch_within,
        "--partition cost": args.partition != "eager",
    }
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name} is for --format {ARTIFACT}: {args.format} cuts the file")
    output = Path(args.output or f"{Path(args.model).stem}_lds{suffix}")
    if output.exists() and output.samefile(args.model):
        raise ConfigError(f"--output {output} is the model itself: name another file")
    made = import_module(module).compile(args.model, target_of(args, args.target), args.rounding)
    made.save(output)
    parts = [
        {
            "nodes": list(part.nodes),
            "artifact_bytes": len(part.artifact.to_bytes()),
            "instructions": sum(len(p) for p in part.artifact.programs),
        }
        for part in made.parts
    ]
    left = {str(node): why for node, why in sorted(made.left.items())}
    report: JsonObject = {
        "output": str(output),
        "nodes": made.nodes,
        "parts": parts,
        "left_to_host": left,
    }
    print(json_text(report) if args.json else _text(report, bool(args.explain)))


def _text(report: JsonObject, explain: bool) -> str:
    parts, left = report["parts"], report["left_to_host"]
    taken = sum(len(part["nodes"]) for part in parts)
    size = sum(part["artifact_bytes"] for part in parts)
    lines = [
        f"{report['output']}: {taken} of {report['nodes']} operators in {len(parts)} "
        f"{'artifact' if len(parts) == 1 else 'artifacts'} of {size} bytes"
        + (f"; {len(left)} stay with the host" if left else "")
    ]
    if explain:
        lines += [f"    operator {node}: {why}" for node, why in left.items()]
    return "\n".join(lines)
