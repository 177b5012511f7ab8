# SPDX-License-Identifier: Apache-2.0
"""`loadstone serve DEVICE SOCKET`: one device for several processes, by priorities, and those
beside it for networks of several devices.

In:   a device by its name; clients, which name theirs served:SOCKET.
Out:  runs of their networks (runtime/hosts/serve.c), until Ctrl-C or SIGTERM, which end it at
      once; then what was counted.
Next: docs/schedule.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.stopping import exit_status, stop_signals
from loadstone.library.native import CData, ffi, lib, owned, raise_easy
from loadstone.simulator.listening import listening_at

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone serve sim /tmp/npu.sock                    the simulator, as the device of the first network
  loadstone serve 'uio:/dev/uio0,/dev/udmabuf0' /run/npu.sock      a board
  loadstone serve 'uio:/dev/uio0;further=/dev/uio1' /run/npu.sock  a board with two devices, for networks of `-count=2`
  loadstone run kws.lds --inputs x.npz --device 'served:/tmp/npu.sock;priority=2;period_us=20000'

devices: as of runtime/hosts/include/lds_easy.h, with its options. Who may write the socket may use the device: its folder decides who does.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds DEVICE and SOCKET."""
    parser.epilog = _EPILOG
    parser.add_argument("device", metavar="DEVICE", help="such as sim, or uio:/dev/uio0")
    parser.add_argument(
        "socket", metavar="SOCKET", type=Path, help="path of the Unix socket to listen at"
    )
    parser.add_argument(
        "--clients",
        metavar="N",
        type=_count,
        default=(1 << 64) - 1,
        help="end when so many have gone (default: never)",
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until interrupted."""
    error = ffi.new("lds_easy_error *")
    with stop_signals() as (stop, caught), listening_at(args.socket) as listening:
        try:
            server = _opened(args.device, listening.fileno(), error)
            print(f"{args.device} at {args.socket}", file=sys.stderr, flush=True)
            raise_easy(lib().lds_server_run(server, args.clients, stop, error), error)
            counts = ffi.new("lds_server_counts *")
            lib().lds_server_counted(server, counts)
            ffi.release(server)
        finally:
            listening.withdraw()
        value = {
            name: int(getattr(counts, name))
            for name in ("networks", "refused", "runs", "failures", "dropped")
        }
        answer(args, value, [", ".join(f"{count} {name}" for name, count in value.items())])
    return exit_status(caught)


def _opened(device: str, listening: int, error: CData) -> CData:
    server = ffi.new("lds_server **")
    raise_easy(lib().lds_server_open(device.encode(), listening, server, error), error)
    return owned(server[0], lib().lds_server_close)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of clients")
    return int(text)
