# SPDX-License-Identifier: Apache-2.0
"""`loadstone disasm FILE`: instructions as text.

In:   an artifact, a vector, or instruction bytes.
Out:  one line for each instruction, with the loop that it stands for.
Next: a person reads it; `loadstone asm` turns it back into the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from loadstone.artifact.format import MAGIC, Artifact
from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.files import read_whole
from loadstone.vta.meaning.listing import DEFAULT_DEVICE, listing, programs_of

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone disasm model.lds                     every program of an artifact, layer by layer
  loadstone disasm conv.npz                      a vector measured on VTA's RTL, with its micro-ops
  loadstone disasm insns.bin --device mine.json  instruction bytes of a device of your own
  loadstone disasm model.lds --uma-backends DIR  with programs of a plug-in's device: @REGION+BYTES is an address
  loadstone disasm model.lds | grep -c gemm      how many GEMMs there are
  loadstone disasm a.bin > a.txt && loadstone asm a.txt -o b.bin     a.bin and b.bin are the same

a line, and how to read it:
  pop(load) gemm acc[u+28i+1j] += inp[u+30i+1j] * wgt[u] for i<28 j<28 u in 0..9 push(load)
    wait for a token of the load stage; for i, j and the micro-ops 0 to 8: multiply the input tile by the weight
    tile and add to the accumulator tile; u is the index that the micro-op gives; then give the load stage a token
docs/isa.md says what each instruction does; `python -m pydoc loadstone.vta.isa.asm` shows every form.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds FILE and --device."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", help="artifact, .npz vector, or instruction bytes; - is stdin"
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help=f"a device's name or JSON file (default: the artifact's own; else {DEFAULT_DEVICE})",
    )
    add_json_option(parser)


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends; installed back ends are searched for the named device."""
    named = any(word.startswith("--device") for word in words)
    add_plugin_options(parser, words, attributes=False, installed=named)


def run(args: argparse.Namespace) -> None:
    """Prints the listing."""
    data = sys.stdin.buffer.read() if args.file == "-" else read_whole(args.file)
    name = "stdin" if args.file == "-" else str(args.file)
    lines = _lines(args, data, name)
    answer(args, {"file": name, "lines": list(lines) if args.json else []}, lines)


def _lines(args: argparse.Namespace, data: bytes, name: str) -> Iterator[str]:
    own = _described(args, data) if args.device and not data.startswith(MAGIC) else None
    if own is not None:
        yield from own
        return
    for program in programs_of(data, name, args.device):
        yield from listing(program)
    artifact = Artifact.from_bytes(data) if data.startswith(MAGIC) else None
    if artifact is not None and not all(one.has_configuration for one in artifact.devices):
        from loadstone.runtime.table_listing import table_listing

        yield from table_listing(artifact)


def _described(args: argparse.Namespace, data: bytes) -> list[str] | None:
    """The instructions of a device that a plug-in describes; None where no plug-in does."""
    from loadstone.backend.plugins import described_accelerator
    from loadstone.isa.codec import decode
    from loadstone.isa.text import disassemble

    own = described_accelerator(args.plugins, args.device)
    if own is None:
        return None
    return disassemble(own.table, decode(own.table, data)).splitlines()
