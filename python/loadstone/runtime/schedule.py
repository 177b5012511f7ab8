# SPDX-License-Identifier: Apache-2.0
"""Several models on one device by fixed priorities, from Python: runtime/schedule.c through cffi.

In:   sessions of one opened device; releases; the time, in any unit.
Out:  their runs, in the order of priorities; the response of each.
Next: analysis/response.py computes how long a response can take; docs/schedule.md.

    with device.open("vtaq-1x16x16") as dev:
        schedule = Schedule()
        voice = schedule.add(dev.load("kws.lds"), priority=2, deadline=100_000)
        schedule.add(dev.load("mnv2.lds"), priority=1, period=5_000_000)
        schedule.run([(1_000_000, voice)], until=10_000_000)      # in simulated cycles
        print(voice.worst_response)

Needs NumPy and cffi, not TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from loadstone.artifact.format import Artifact
from loadstone.errors import DeviceError, LoadstoneError
from loadstone.library.native import CData, ffi, lib, raise_for
from loadstone.runtime.session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's own from Python 3.11 on

__all__ = [
    "Response",
    "Schedule",
    "Task",
    "TaskOptions",
    "isolated",
    "isolated_scratch_bytes",
    "why_not_isolated",
]

_FOREVER = (1 << 64) - 1
_NUMBERS = ("priority", "period", "offset", "deadline")


def isolated(artifact: Artifact | bytes) -> tuple[int, int, int]:
    """Whether no program of a model depends on what ran before it (rule V17 of
    runtime/VALIDATION.md): (status, step, instruction), with status 0 where that is certain. Raises
    ArtifactError for an invalid file."""
    data = artifact if isinstance(artifact, bytes) else artifact.to_bytes()
    model, fault = ffi.new("lds_model *"), ffi.new("lds_fault *")
    buffer = ffi.from_buffer(data)
    raise_for(lib().lds_model_open(model, buffer, len(data)), "file")
    scratch = _scratch(model)
    status = lib().lds_model_isolated(model, scratch, ffi.sizeof(scratch), fault)
    return status, fault.step, fault.instruction


def why_not_isolated(artifact: Artifact) -> str:
    """Why a model cannot share a device: the rest of a line that names it; "" where it can."""
    status, step, instruction = isolated(artifact)
    if not status:
        return ""
    return (
        f"step {step}, instruction {instruction}: it is not certain that it reads only what its "
        "program has written: it cannot share a device"
    )


def isolated_scratch_bytes(artifact: Artifact) -> int:
    """Of the memory that checking it takes, on any processor. Raises ArtifactError."""
    data = artifact.to_bytes()
    model, buffer = ffi.new("lds_model *"), ffi.from_buffer(data)
    raise_for(lib().lds_model_open(model, buffer, len(data)), "file")
    return int(lib().lds_isolated_scratch_bytes(model))


def _scratch(model: CData) -> CData:
    return ffi.new("uint32_t[]", lib().lds_isolated_scratch_bytes(model) // 4 + 1)


@dataclass(frozen=True)
class Response:
    """One run: when it was released, how long it took from there, and why it failed, if it did."""

    released: int
    time: int
    error: LoadstoneError | None = None


class Task:
    """A session in a Schedule. responses: of its runs, in the order in which they ended."""

    def __init__(
        self,
        session: Session,
        begin: Callable[[Session], None] | None,
        done: Callable[[Session], None] | None,
    ) -> None:
        self.session = session
        self.responses: list[Response] = []
        self._begin, self._done = begin, done
        self._error: BaseException | None = None
        self.c_task: CData = ffi.new("lds_task *")
        self.begin_callback = ffi.callback("int(void *, struct lds_task *)", self._begins)
        self.done_callback = ffi.callback("void(void *, struct lds_task *, int)", self._ends)

    @property
    def worst_response(self) -> int:
        """The longest so far."""
        return int(self.c_task.worst_response)

    @property
    def missed(self) -> int:
        """Deadlines, and periodic releases for which the run before had not ended."""
        return int(self.c_task.missed)

    @property
    def next_step(self) -> int:
        """Of its run the step behind the block that has begun, by its number in the model."""
        return int(self.c_task.step)

    def release(self, now: int) -> bool:
        """Asks for a run, released at this time; False where the one before has not begun."""
        return bool(lib().lds_task_release(self.c_task, now) == 0)

    def cancel(self) -> None:
        """Ends the run with its block, or before it begins."""
        lib().lds_task_cancel(self.c_task)

    def raise_error(self) -> None:
        """Raises what `begin` or `done` raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _begins(self, _ctx: CData, _task: CData) -> int:
        try:
            if self._begin is not None:
                self._begin(self.session)
        except BaseException as error:  # passed on behind the C code
            self._error = error
            return int(lib().LDS_ERR_HAL)
        return 0

    def _ends(self, _ctx: CData, task: CData, status: int) -> None:
        error = self.session.error_of(status)
        self.responses.append(Response(int(task.released_at), int(task.response), error))
        try:
            if self._done is not None and error is None:
                self._done(self.session)
        except BaseException as raised:
            self._error = raised


class TaskOptions(TypedDict, total=False):
    """How a session is scheduled. Times are in the unit of those that Schedule.step gets."""

    priority: int  # the largest goes first; of equal ones that which was added first
    period: int  # 0: released by Task.release alone
    offset: int  # of a period: the first release
    deadline: int  # 0: none
    entry: str | None
    begin: Callable[[Session], None] | None  # before a run, to set inputs
    done: Callable[[Session], None] | None  # after one that did not fail, to take outputs
    trust: bool  # do not check that its programs are isolated


class Schedule:
    """Sessions of one device that share it. One thread at a time; nobody else uses the sessions."""

    def __init__(self) -> None:
        self._schedule: CData = ffi.new("lds_schedule *")
        lib().lds_schedule_init(self._schedule)
        self._tasks: list[Task] = []
        self.now = 0

    @property
    def cycles(self) -> int:
        """Of the device, for all that has ended."""
        return int(self._schedule.cycles)

    @property
    def switches(self) -> int:
        """How often another session went on than before."""
        return int(self._schedule.switches)

    @property
    def at_work(self) -> Task | None:
        """Whose block is on the device, or has ended there in the last step."""
        return next((t for t in self._tasks if t.c_task == self._schedule.in_flight), None)

    @property
    def block_ended(self) -> bool:
        """Whether the block of `at_work` has ended."""
        return bool(self._schedule.block_ended)

    def add(self, session: Session, **options: Unpack[TaskOptions]) -> Task:
        """Raises ArtifactError where its programs are not isolated, DeviceError for numbers that
        are no whole ones from 0 on, of 32 bits (priority) or 64."""
        unknown = options.keys() - TaskOptions.__annotations__
        if unknown:
            raise TypeError(f"Schedule.add takes no option {', '.join(sorted(unknown))}")
        artifact = session.artifact
        task = Task(session, options.get("begin"), options.get("done"))
        config = ffi.new("lds_task_config *")
        lib().lds_task_config_default(config)
        config.entry = artifact.entry_number(options.get("entry"))
        numbers = {name: options.get(name, 0) for name in _NUMBERS}
        try:
            for name, value in numbers.items():
                setattr(config, name, value)
        except OverflowError:
            said = ", ".join(f"{name} {value}" for name, value in numbers.items())
            raise DeviceError(
                f"model {artifact.name!r}: {said}: a priority has 32 bits, times have 64, and none "
                "is below 0"
            ) from None
        config.begin, config.done = task.begin_callback, task.done_callback
        if not options.get("trust", False):
            status, step, instruction = isolated(artifact)
            place = f", step {step}, instruction {instruction}" if status else ""
            raise_for(status, artifact.name, place)
        c_session = session.c_session()
        status = lib().lds_schedule_add(self._schedule, task.c_task, c_session, config)
        raise_for(status, artifact.name)
        self._tasks.append(task)
        return task

    def step(self, now: int, wait_ns: int = _FOREVER) -> bool:
        """Ends a block, begins one, or waits for it; False: there is nothing to do until `next`, or
        a release. Raises what `begin` and `done` raise."""
        status = lib().lds_schedule_step(self._schedule, now, wait_ns)
        for task in self._tasks:
            task.raise_error()
        return bool(status == lib().LDS_BUSY)

    @property
    def next(self) -> int | None:
        """When the next periodic release is."""
        found = int(lib().lds_schedule_next(self._schedule))
        return None if found == _FOREVER else found

    def run(self, releases: Iterable[tuple[int, Task]] = (), *, until: int) -> None:
        """Runs in the device's own time, where a cycle is one unit, from `now` on: as on a device
        with a host that takes no time. releases: by time. until: from then on no period releases
        anything, and what was released ends."""
        ahead = sorted(releases, key=lambda pair: pair[0])
        place, busy = 0, True
        while busy or self.now < until:
            while place < len(ahead) and ahead[place][0] <= self.now:
                time, task = ahead[place]
                task.release(time)
                place += 1
            before = self.cycles
            with self._without_periods() if self.now >= until else nullcontext():
                busy = self.step(self.now)
            self.now += self.cycles - before
            if not busy:
                times = [until, *([ahead[place][0]] if place < len(ahead) else [])]
                times += [self.next] if self.next is not None else []
                self.now = max(self.now, min(times))
                if self.now >= until:
                    return

    @contextmanager
    def _without_periods(self) -> Iterator[None]:
        """Else a device that is overloaded would never rest."""
        held = [task for task in self._tasks if not task.c_task.over]
        for task in held:
            task.c_task.over = 1
        try:
            yield
        finally:
            for task in held:
                task.c_task.over = 0
