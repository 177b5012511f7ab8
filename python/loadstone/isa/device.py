# SPDX-License-Identifier: Apache-2.0
"""A simulated accelerator behind its registers.

In:   an Accelerator, its DRAM, register reads and writes.
Out:  programs executed, at once or in a thread of their own; the interrupt line.
Next: runtime/accelerators.py puts it behind a HAL.
"""

from __future__ import annotations

import threading
import traceback
import zlib
from collections.abc import Callable

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.machine import TableMachine
from loadstone.isa.native_page import Action, NativePage, RegisterPage
from loadstone.isa.state import BAD_INSTRUCTION, Dram, MachineFault, MachineRun

__all__ = ["TableDevice"]


class TableDevice:
    """Registers of one simulated accelerator. Local memories begin as zeros."""

    def __init__(
        self,
        accelerator: Accelerator,
        dram: Dram,
        *,
        notify: Callable[[], None] | None = None,
        trace: bool = False,
    ) -> None:
        """notify: called whenever the interrupt line may have changed; programs then run in a
        thread. None: they run while START is written."""
        self.accelerator = accelerator
        config_hash = zlib.crc32(accelerator.table.fingerprint)
        make = accelerator.page or NativePage
        self.page: RegisterPage = make(config_hash)
        self.machine = TableMachine(accelerator, dram, trace=trace)
        self.jobs = 0
        self.last: MachineRun | None = None
        self._notify = notify
        self._thread: threading.Thread | None = None
        self._working = False  # its thread lives a little longer, and the next job need not wait

    @property
    def running(self) -> bool:
        """Whether a job runs."""
        return self._working

    def read32(self, offset: int) -> int:
        """One register."""
        if self.running:
            self.page.moved(self.machine.completed)
        return self.page.read32(offset) & 0xFFFFFFFF

    def write32(self, offset: int, value: int) -> None:
        """One register."""
        action = self.page.write32(offset, value)
        if action is Action.START and not self.running:
            self._start()
        elif action in (Action.RESET, Action.ABORT):
            self.stop()
            self.page.ended(None)
        if self._notify is not None:
            self._notify()

    def stop(self) -> None:
        """Ends a job that runs, behind the instruction that it is at."""
        if self._thread is not None:
            self.machine.aborted = True
            self._thread.join()
            self._thread = None
        self.machine.aborted = False

    def _start(self) -> None:
        self.page.started()
        self._working = True
        if self._notify is None:
            self._run()
            return
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        job = self.page.job()
        result: MachineRun | MachineFault
        try:
            result = self.last = self.machine.run(job.address, job.count, job.code)
        except MachineFault as fault:
            result = fault
        except BaseException:  # of a meaning
            self._working = False
            if self._notify is None:
                raise  # whoever started the job reports it
            traceback.print_exc()
            result = MachineFault(BAD_INSTRUCTION, "a meaning that failed")
        self.jobs += 1
        self._working = False
        if not self.machine.aborted:
            self.page.ended(result)
        if self._notify is not None:
            self._notify()
