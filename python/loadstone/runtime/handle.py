# SPDX-License-Identifier: Apache-2.0
"""The C struct of an open device, with the objects that it needs.

In:   a device that device.py opened.
Out:  Handle.
Next: session.py opens a session with it, and accelerators.py further devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loadstone.library.native import CData
from loadstone.runtime.lent_files import LentFiles

__all__ = ["Handle"]


@dataclass(frozen=True)
class Handle:
    """An open device as C knows it. device: lds_device *. owner: what must live as long as the
    device's memory is used. sim: lds_hal_sim *, for devices beside a simulated one. timing: whether
    those count cycles. connect: (owner, lds_hal) of another device of the same board by its name,
    None where there is none. message: what a board has to say of memory that it could not give.
    files: those of models that it reads in place."""

    device: CData
    owner: object
    sim: CData | None = None
    timing: bool = True
    connect: Callable[[str], tuple[CData, CData] | None] = lambda _name: None
    message: Callable[[], str] = str
    files: LentFiles | None = None
