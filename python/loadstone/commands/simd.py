# SPDX-License-Identifier: Apache-2.0
"""`loadstone simd SOCKET`: the simulator as a process, a device for other processes.

In:   names of devices, their memory, the faults to inject into them.
Out:  the registers of each, served at a socket until the process ends. Ctrl-C and SIGTERM end it at
      once, even during a job, and remove the sockets.
Next: QEMU with the plug-in of tests/board, or `loadstone run --device simd:SOCKET`.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from loadstone.backend.plugins import described_accelerator
from loadstone.backend.target_spec import parse_target
from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.stopping import exit_status, stop_signals
from loadstone.errors import DeviceError
from loadstone.isa.accelerator import Accelerator
from loadstone.simulator.server import Server
from loadstone.simulator.simd import Served, SharedMemory
from loadstone.simulator.table_simd import TableSimulated
from loadstone.vta.device.cores import BUSES, MOST_CORES, cores_of
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.simulator.rtl_simd import RtlSimulated, rtl_name
from loadstone.vta.simulator.sim import ORDERS
from loadstone.vta.simulator.simd_device import FAULTS, Fault, SimulatedDevice

__all__ = ["configure", "extend", "run"]

_DEFAULT = "vtaq-1x16x16"
_WIDTH = max(map(len, FAULTS))
_EPILOG = f"""\
examples:
  loadstone simd /tmp/board.sock                                  a device with its own 64 MiB of memory
  loadstone simd /tmp/board.sock --memory ram --base 0x40000000   with the memory of a machine that QEMU emulates
  loadstone simd /tmp/board.sock --device systolic --uma-backends DIR   an accelerator that a plug-in describes
  loadstone simd /tmp/board.sock --device vtaq-1x16x16 --device systolic --uma-backends DIR   two, for a model of both
  loadstone simd /tmp/board.sock --device "vtaq-1x16x16 -count=2 -bus=shared"   two equal ones, for a model of both
  loadstone simd /tmp/board.sock --fault hang@1 --fault bus-error@3
  loadstone simd /tmp/board.sock --device "vtaq-1x16x16 -count=2" --fault vtaq-1x16x16.1:hang@1   of the second one
  loadstone simd /tmp/board.sock --order load-first               loads run ahead as far as tokens allow, which reveals missing tokens

faults (KIND@JOB or KIND@JOB:ARG, of the first device; DEVICE:KIND@JOB of another; a device's first job is 0):
{chr(10).join(f"  {kind:<{_WIDTH}}  {what}" for kind, what in FAULTS.items())}

The protocol is described in simd.py, and emulated boards in docs/boards/emulated.md.
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
        action="append",
        default=[],
        help="a device, a JSON file, an accelerator of a plug-in ('NAME -attribute=value'), or rtl:NAME, its hardware under "
        f"Verilator (default: {_DEFAULT}); given again, another one with the same memory, at SOCKET.NAME",
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
        help="a fault of one job of a device; may be repeated",
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
    add_json_option(serving)


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False)


def run(args: argparse.Namespace) -> int:
    """Serves until interrupted."""
    first, *others = [one for text in args.device or [_DEFAULT] for one in _each(text)]
    args.made = {}  # simulated VTAs, by their names
    devices = [_described(args, first)]
    named = [(name, fault) for name, fault in args.fault if name]
    other = {"fault": named, "registers": None, "order": "program"}
    plain = argparse.Namespace(**{**vars(args), **other})
    devices += [_described(plain, name) for name in others]
    names = [name for name, _ in devices]
    if len(set(names)) < len(names):
        raise DeviceError(f"--device {' --device '.join(names)}: one of each name")
    for name, fault in named:
        if name not in names:
            raise DeviceError(
                f"--fault {name}:{fault.kind}@{fault.job}: there is no device {name}: name one of "
                f"{', '.join(names)}"
            )
    return _serve(args, devices)


def _each(text: str) -> Sequence[str | HwConfig]:
    """The devices of one --device: several equal ones where it says a count."""
    if "-count=" not in text:
        return [text]
    entry, *more = parse_target(text).accelerators
    said = dict(entry.attributes)
    count, bus = said.pop("count", "1"), said.pop("bus", BUSES[0])
    if (
        more
        or said
        or bus not in BUSES
        or not count.isdecimal()
        or not 0 < int(count) <= MOST_CORES
    ):
        raise DeviceError(
            f"--device {text!r} is not NAME -count=N -bus=B with N from 1 to {MOST_CORES} and B "
            f"one of {', '.join(BUSES)}"
        )
    return cores_of(load_config(entry.name), int(count), bus=bus)


class _Closing(Served, Protocol):
    def close(self) -> None: ...


#: A device's name, and the function that creates it on a memory.
_Described = tuple[str, Callable[[SharedMemory], _Closing]]


def _described(args: argparse.Namespace, named: str | HwConfig) -> _Described:
    """One device. Raises DeviceError for options that it lacks."""
    if not isinstance(named, str):
        return _vta_device(args, named, None)
    rtl = rtl_name(named)
    accelerator = described_accelerator(args.plugins, named) if rtl is None else None
    if accelerator is not None:
        return _table_device(args, accelerator)
    return _vta_device(args, load_config((rtl or _DEFAULT) if rtl is not None else named), rtl)


def _vta_device(args: argparse.Namespace, config: HwConfig, rtl: str | None) -> _Described:
    """rtl: not None: its hardware under Verilator."""
    faults = _faults_of(args, config.name)
    unlike_rtl = faults or args.registers not in (None, "native") or args.order != "program"
    if rtl is not None and unlike_rtl:
        raise DeviceError(
            "--fault, --order and other register pages are the simulator's: the RTL has the native "
            "page, its own order, and no faults to order"
        )

    def make(memory: SharedMemory) -> SimulatedDevice | RtlSimulated:
        if rtl is not None:
            return RtlSimulated(config, memory)
        options = {"registers": args.registers, "order": args.order}
        made = SimulatedDevice(config, memory, faults=faults, **options)
        args.made[config.name] = made
        if config.bus_of in args.made:
            made.share_bus(args.made[config.bus_of])
        return made

    return config.name, make


def _faults_of(args: argparse.Namespace, name: str) -> tuple[Fault, ...]:
    """Those of a device: that say its name, or none."""
    return tuple(fault for of, fault in args.fault if of in ("", name))


def _table_device(args: argparse.Namespace, accelerator: Accelerator) -> _Described:
    if _faults_of(args, accelerator.name) or args.registers or args.order != "program":
        raise DeviceError(
            "--fault, --order and --registers are for VTA's simulator: an accelerator of a plug-in has the "
            "registers that it describes, and no faults to order"
        )
    return accelerator.name, lambda memory: TableSimulated(accelerator, memory)


def _serve(args: argparse.Namespace, devices: Sequence[_Described]) -> int:
    memory = (
        SharedMemory.of_file(args.memory, args.base)
        if args.memory
        else SharedMemory.anonymous(args.base, args.size)
    )
    with stop_signals() as (stop, caught), contextlib.ExitStack() as ends:
        servers = []
        for number, (name, make) in enumerate(devices):
            path = Path(f"{args.socket}.{name}") if number else args.socket
            device = make(memory)
            ends.callback(device.close)
            servers.append(Server(path, device, memory, alone=len(devices) == 1))
            ends.callback(servers[-1].close)
        _say(args, [(n, s.path) for s, (n, _) in zip(servers, devices, strict=True)], memory)
        with ThreadPoolExecutor(max_workers=len(servers)) as pool:
            more = [pool.submit(s.serve, clients=args.clients, stop=stop) for s in servers[1:]]
            servers[0].serve(clients=args.clients, stop=stop)
            for served in more:
                served.result()
    return exit_status(caught)


def _say(
    args: argparse.Namespace, served: Sequence[tuple[str, Path]], memory: SharedMemory
) -> None:
    """Which devices can be reached now. Faults without a name are the first one's."""
    base, end = memory.bus_address, memory.bus_address + memory.size_bytes
    ordered = [name or served[0][0] for name, _ in args.fault]
    value = [
        {"name": n, "socket": str(path), "base": base, "end": end, "faults": ordered.count(n)}
        for n, path in served
    ]
    lines = [
        f"{one['name']} at {one['socket']}: memory 0x{base:X} to 0x{end:X}, {one['faults']} faults"
        for one in value
    ]
    answer(args, {"devices": value}, lines)


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 4096 or 0x1000")
    return value


def _fault(text: str) -> tuple[str, Fault]:
    """The name of a device, or "" for the first; its fault."""
    named = ":" in text.partition("@")[0]
    name, _, fault = text.partition(":") if named else ("", "", text)
    try:
        return name, Fault.parse(fault)
    except DeviceError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
