# SPDX-License-Identifier: Apache-2.0
"""`loadstone asm FILE -o OUT`: text as instructions.

In:   text in the form that `loadstone disasm` prints.
Out:  instruction bytes: 16 for each line of VTA's, of a plug-in's accelerator as its table says.
Next: `loadstone disasm`, the simulator, a board's own tools.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from loadstone.backend.plugins import described_accelerator
from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.table_sources import table_bytes
from loadstone.errors import AssemblerError, ConfigError
from loadstone.files import read_whole, write_whole
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.meaning.listing import DEFAULT_DEVICE

__all__ = ["configure", "extend", "run"]

_EPILOG = """\
examples:
  loadstone asm program.txt -o program.bin                      for the default VTA
  loadstone asm program.txt -o program.bin --device mine.json   for a device of your own
  loadstone asm program.txt -o program.bin --device systolic --uma-backends DIR     of a plug-in's accelerator
  loadstone asm program.txt -o program.bin --json               what was written, for programs
  echo finish | loadstone asm - -o - | xxd                      from stdin to stdout

a program:
  load uop[0] = dram[64 + x] for x<9                                    # comments stand behind a hash
  load inp[0] = dram[256 + 56y + x] for y<28 x<14 pad top 1 left 1 push(compute)
  pop(load) gemm acc[u+14i+1j] += inp[u+15i+1j] * wgt[u] for i<28 j<14 u in 0..9 push(store)
  pop(compute) store dram[512 + 28y + x] = out[0] for y<28 x<14 push(compute)
  pop(store) finish
`python -m pydoc loadstone.vta.isa.asm` shows every form.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds FILE, -o and --device."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="text; - is stdin")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the file of instruction bytes to write; - is stdout",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        default=DEFAULT_DEVICE,
        help=f"a device, its JSON file, or a plug-in's accelerator (default: {DEFAULT_DEVICE})",
    )
    add_json_option(parser)


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False)


def run(args: argparse.Namespace) -> None:
    """Writes the bytes; nothing is written when a line is wrong."""
    if args.json and args.output == "-":
        raise ConfigError("asm: --json and -o - would both be on stdout: -o FILE")
    name = "stdin" if args.file == "-" else args.file
    try:
        text = (sys.stdin.buffer.read() if args.file == "-" else read_whole(args.file)).decode(
            "utf-8"
        )
        own = described_accelerator(args.plugins, args.device)
        if own is None:
            insns = assemble(text, load_config(args.device)).tobytes()
        else:
            insns = table_bytes(own, text)
    except UnicodeDecodeError as error:
        raise AssemblerError(
            f"{name}: is no UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02X}"
        ) from None
    except AssemblerError as error:
        raise AssemblerError(f"{name}, {error}") from None
    if args.output == "-":
        sys.stdout.buffer.write(insns)
    else:
        write_whole(args.output, insns)
        answer(args, {"file": args.output, "size_bytes": len(insns)}, ())
