# SPDX-License-Identifier: Apache-2.0
"""`loadstone simd SOCKET`: the simulator as a process, a device for other processes.

In:   a device's name, its memory, the faults that it is to have.
Out:  registers at the socket until the process is ended: Ctrl-C and SIGTERM end it at once, in the
      middle of a job too, and
      take the socket away.
Next: QEMU with the plug-in of tests/board, or `loadstone run --device simd:SOCKET`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from loadstone.backend.plugins import described_accelerator
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.errors import DeviceError
from loadstone.isa.accelerator import Accelerator
from loadstone.simulator.rtl_simd import RtlSimulated, rtl_name
from loadstone.simulator.server import Server
from loadstone.simulator.sim import ORDERS
from loadstone.simulator.simd import FAULTS, Fault, Served, SharedMemory, SimulatedDevice
from loadstone.simulator.table_simd import TableSimulated
from loadstone.vta.hw_config import load_config

__all__ = ["configure", "extend", "run"]

_DEFAULT = "vtaq-1x16x16"
_EXIT_TERMINATED = 143  # 128 + SIGTERM
_WIDTH = max(map(len, FAULTS))
_EPILOG = f"""\
examples:
  loadstone simd /tmp/board.sock                                  a device with 64 MiB of memory of its own
  loadstone simd /tmp/board.sock --memory ram --base 0x40000000   with the memory of a machine that QEMU emulates
  loadstone simd /tmp/board.sock --device systolic --uma-backends DIR   an accelerator that a plug-in describes
  loadstone simd /tmp/board.sock --fault hang@1 --fault bus-error@3
  loadstone simd /tmp/board.sock --order load-first               loads run ahead as far as tokens allow: shows tokens that are missing

faults (KIND@JOB or KIND@JOB:ARG; the first job is 0):
{chr(10).join(f"  {kind:<{_WIDTH}}  {what}" for kind, what in FAULTS.items())}

The protocol is described in simd.py, the board without a board in docs/board.md.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds SOCKET, the device, its memory and its faults."""
    parser.epilog = _EPILOG
    device = parser.add_argument_group("the device")
    memory = parser.add_argument_group("its memory")
    serving = parser.add_argument_group("serving")
    parser.add_argument(
        "socket", metavar="SOCKET", type=Path, help="path of the Unix socket to listen at"
    )
    device.add_argument(
        "--device",
        metavar="NAME",
        default=_DEFAULT,
        help="a device, a JSON file, an accelerator of a plug-in ('NAME -attribute=value'), or rtl:NAME, its hardware under Verilator (default: %(default)s)",
    )
    device.add_argument(
        "--registers",
        choices=("native", "vta-chisel", "vta-hls"),
        help="register page (default: the device's)",
    )
    memory.add_argument(
        "--memory", metavar="FILE", type=Path, help="an existing file that is the memory, all of it"
    )
    memory.add_argument(
        "--base",
        metavar="ADDRESS",
        type=_number,
        default=0x10000000,
        help="bus address of the memory's first byte (default: 0x10000000)",
    )
    memory.add_argument(
        "--size",
        metavar="BYTES",
        type=_number,
        default=64 << 20,
        help="memory without a FILE (default: 64 MiB)",
    )
    device.add_argument(
        "--fault",
        metavar="FAULT",
        type=_fault,
        action="append",
        default=[],
        help="a fault of one job; may be given again",
    )
    device.add_argument(
        "--order",
        choices=ORDERS,
        default="program",
        help="which instruction runs next where tokens leave a choice (default: %(default)s)",
    )
    serving.add_argument(
        "--clients", metavar="N", type=_number, help="end after so many clients (default: never)"
    )


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False)


def run(args: argparse.Namespace) -> int:
    """Serves until interrupted."""
    rtl = rtl_name(args.device)
    accelerator = described_accelerator(args.plugins, args.device) if rtl is None else None
    if accelerator is not None:
        return _run_accelerator(args, accelerator)
    config = load_config((rtl or _DEFAULT) if rtl is not None else args.device)
    unlike_rtl = args.fault or args.registers not in (None, "native") or args.order != "program"
    if rtl is not None and unlike_rtl:
        raise DeviceError(
            "--fault, --order and other register pages are the simulator's: the RTL has the native "
            "page, its own order, and no faults to order"
        )

    def make(memory: SharedMemory) -> SimulatedDevice | RtlSimulated:
        if rtl is not None:
            return RtlSimulated(config, memory)
        faults = tuple(args.fault)
        options = {"registers": args.registers, "order": args.order}
        return SimulatedDevice(config, memory, faults=faults, **options)

    return _serve(args, config.name, make)


def _run_accelerator(args: argparse.Namespace, accelerator: Accelerator) -> int:
    if args.fault or args.registers or args.order != "program":
        raise DeviceError(
            "--fault, --order and --registers are for VTA's simulator: an accelerator of a plug-in has the "
            "registers that it describes, and no faults to order"
        )
    return _serve(args, accelerator.name, lambda memory: TableSimulated(accelerator, memory))


class _Closing(Served, Protocol):
    def close(self) -> None: ...


def _serve(args: argparse.Namespace, name: str, make: Callable[[SharedMemory], _Closing]) -> int:
    memory = (
        SharedMemory.of_file(args.memory, args.base)
        if args.memory
        else SharedMemory.anonymous(args.base, args.size)
    )
    with _signals() as (stop, caught), contextlib.ExitStack() as ends:
        device = make(memory)
        ends.callback(device.close)
        server = Server(args.socket, device, memory)
        ends.callback(server.close)
        end = memory.bus_address + memory.size_bytes
        print(
            f"{name} at {args.socket}: memory 0x{memory.bus_address:X} to 0x{end:X}, "
            f"{len(args.fault)} faults",
            flush=True,
        )
        server.serve(clients=args.clients, stop=stop)
    if signal.SIGINT in caught:
        raise KeyboardInterrupt
    return _EXIT_TERMINATED if caught else 0


@contextlib.contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """A descriptor that is readable when the process is to end, and the signals that said so. (No
    exception: it could come while C calls
    Python, and be lost there.) A signal that is ignored, as SIGINT in a background job of a shell,
    stays so."""
    stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    caught: list[int] = []

    def note(number: int, _frame: object) -> None:
        caught.append(number)
        os.eventfd_write(stop, 1)

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    ]
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield stop, caught
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(stop)


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 4096 or 0x1000")
    return value


def _fault(text: str) -> Fault:
    try:
        return Fault.parse(text)
    except DeviceError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
