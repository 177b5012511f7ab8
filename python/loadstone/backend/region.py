# SPDX-License-Identifier: Apache-2.0
"""The result of lowering a segment: the operators that a back end takes together.

In:   nothing.
Out:  Place, Form and LoweredRegion: the contract between a back end that makes device programs and
      artifact/deploy.py; ExternalRegion, for a back end whose device is called through a function.
Next: artifact/deploy.py plans the memory, then asks each region for its program; an external region
      becomes one step directly.

There are two phases, because instructions contain addresses: a region first states the memory that
it needs, and builds its program when all of it has been placed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadstone.backend.device import ProgramDevice, ProgramStep
from loadstone.numerics import Array
from loadstone.passes.log import PassRun

if TYPE_CHECKING:
    from loadstone import graph as g

__all__ = ["Address", "DeviceLayout", "ExternalRegion", "LoweredRegion"]


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a DRAM tensor: region and offset in bytes."""

    region: int
    offset_bytes: int


@dataclass(frozen=True)
class DeviceLayout:
    """The device's layout of a tensor: blocked, as (N, H, W, C). With a kernel larger than 1x1,
    packing folds taps into C.

    name: unique among all layouts. strides, pads (top, left), pad_value: of the folding. scratch:
        memory for a single operator, which makes the tensor. dtype: of the elements, int8,
        bfloat16, or int32 of what the device only writes.
    """

    name: str
    tensor: g.Tensor
    shape: tuple[int, int, int, int]
    batch_block: int
    channel_block: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    pad_value: int = 0
    scratch: bool = False
    dtype: str = "int8"

    @property
    def size_bytes(self) -> int:
        """Bytes in the arena."""
        n, h, w, c = self.shape
        return (
            {"int8": 1, "bfloat16": 2, "int32": 4}[self.dtype]
            * -(-n // self.batch_block)
            * -(-c // self.channel_block)
            * h
            * w
            * self.batch_block
            * self.channel_block
        )


class LoweredRegion(ABC):
    """A sequence of operators as a back end lowered it: the memory that it needs and, once this is
    placed, its program.

    name: for reports. operators: those that it computes, in order. aliases: layouts that are parts
        of others, name -> (name of the whole, offset in bytes). constants: content and alignment in
        bytes, by name.
    """

    name: str
    operators: Sequence[g.Operator]
    aliases: Mapping[str, tuple[str, int]]
    constants: Mapping[str, tuple[Array, int]]
    #: The cycles that a program of it should take at most; None: it is one program.
    piece_cycles: int | None = None

    @property
    @abstractmethod
    def layouts(self) -> Sequence[tuple[DeviceLayout, int, int]]:
        """Every layout that it accesses, with the first and the last of its operators (counted from
        0) that do."""

    @property
    def program_device(self) -> ProgramDevice | None:
        """The device of its program; None: the device that the network is compiled for."""
        return None

    @property
    def beside_devices(self) -> Sequence[ProgramDevice]:
        """Those that work on it beside program_device: ProgramStep.device of its programs is 0 for
        that one, and 1 and so on for these."""
        return ()

    @property
    def device(self) -> str:
        """The name of program_device; empty for None."""
        return self.program_device.name if self.program_device is not None else ""

    @property
    def align_bytes(self) -> int:
        """The alignment of its tensors, where it exceeds that of the artifact's device."""
        return 1

    @property
    def remarks(self) -> Mapping[str, str]:
        """By operator, the method that the device uses, where `--explain` should show it."""
        return {}

    @property
    def runs(self) -> Sequence[PassRun]:
        """The passes of passes/table.py that produced it, with the texts of their results."""
        return ()

    @abstractmethod
    def build(self, addresses: Mapping[str, Address], uops: Address) -> tuple[ProgramStep, bytes]:
        """The program for these addresses of layouts and constants, and its micro-op table, which
        will be placed at `uops`."""

    def programs(
        self, addresses: Mapping[str, Address], uops: Callable[[], Address]
    ) -> Iterator[tuple[ProgramStep, bytes]]:
        """Its programs, in order, each with its micro-op table. uops: where the next table will be
        placed. A back end that cannot cut its programs makes one, whatever `piece_cycles` says."""
        yield self.build(addresses, uops())


@dataclass(frozen=True, eq=False)
class ExternalRegion:
    """Operators that one call of a function computes, from and to row-major tensors.

    inputs, outputs: those of the segment; the function allocates tensors between its operators
        itself.
    function: a name among Backend.externals; register_external registers it with the runtime.
    attributes: any text for the function, kept in the artifact (JSON, C source, base64 ...).
    constants: weights and tables by name, kept in the artifact: further inputs of the function,
        after `inputs`, in order.
    """

    name: str
    operators: Sequence[g.Operator]
    inputs: Sequence[g.Tensor]
    outputs: Sequence[g.Tensor]
    function: str
    attributes: str
    constants: Mapping[str, Array]
