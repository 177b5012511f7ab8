# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.emulated [FILE ...]`: the tests on a processor without AVX, which qemu-user
emulates: file by file, and from where it stopped the last time.

In:   test files (default: all); the log of earlier runs.
Out:  a line in the log for each test; a table of files; exit status 1 where a test failed.
Next: `make test-emulated`; emulated_file.py, which runs one file there.

Python, with all libraries in it, is emulated: this one, and each that a test starts, since
`sys.executable` is a script that calls the emulator. Programs that tests compile are emulated too,
unless a sanitizer is in them. Compilers, browsers and emulators of boards run natively.

An emulated processor is some thirty times slower. TVM and the frameworks are therefore imported
once, and each file runs in a copy of that process. A file has a limit of processor time, which
rises from round to round: what is quick is known first. What its limit ended is tried in the next
round. Tests of tests/slow.txt, which `make test` leaves out, are left out here too, and PyTorch,
since to import it takes minutes there. A copy of a copy may not start threads in qemu 7.2: a test
that forks behind a framework's threads fails, and passes in a fresh process (`--alone`).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import ROOT, THREADS

__all__ = [
    *("CPU", "EMULATOR", "LOG", "NOW", "Log", "Round"),
    *("environment", "main", "processor_seconds"),
]

#: A processor without AVX.
CPU = "Nehalem"
#: OpenBLAS looks which processor it has: who sets this variable speaks of another.
EMULATOR = ("qemu-x86_64", "-cpu", CPU, "-U", "OPENBLAS_CORETYPE")
FOLDER = ROOT / "build" / "emulated"
LOG = FOLDER / "results.tsv"
#: The test that runs now: the one that is late when its file is ended.
NOW = FOLDER / "now.txt"
#: A file that waits for ever uses no processor time: it ends when it has used none for so long.
STILL_S = 300
#: Imported once, if it is there. Not ONNX Runtime: it starts a thread, and when a copy of a process
#: that had threads starts one, qemu 7.2 aborts (in its qemu_plugin_vcpu_init_hook).
MODULES = (
    *("loadstone.cli", "loadstone.compiler", "loadstone.conformance.check", "pytest"),
    *("hypothesis", "onnx", "ai_edge_litert.interpreter", "tests.emulated_file"),
)
OUTCOMES = ("passed", "failed", "skipped")
#: At the start of each Python there: the packages of this one, without PyTorch.
SITE = """import site, sys
from importlib.machinery import PathFinder

class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchgen", "torchao", "functorch", "executorch"):
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
site.addsitedir(PACKAGES)
"""


@dataclass(frozen=True)
class Round:
    """A limit for each file, and whether tests marked `full` are run."""

    limit_s: int
    full: bool


ROUNDS = (Round(120, full=False), Round(1200, full=True), Round(14400, full=True))


class Log:
    """What was run: a line for each test, or for a whole file. Commit, test, outcome, seconds, a
    note. A file that is through says `done`, or `quick` when only its full tests are left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, tuple[str, str]] = {}
        self.seconds: dict[str, float] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                commit, test, outcome, seconds, note = line.split("\t")
                del commit
                self._take(test, outcome, float(seconds), note)

    def _take(self, test: str, outcome: str, seconds: float, note: str) -> None:
        self.outcomes[test] = (outcome, note)
        self.seconds[test] = self.seconds.get(test, 0.0) + seconds

    def add(self, test: str, outcome: str, seconds: float, note: str = "") -> None:
        """A line, at once in the file."""
        test, note = (" ".join(text.split()) for text in (test, note[:300]))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{_commit()}\t{test}\t{outcome}\t{seconds:.1f}\t{note}\n")
        self._take(test, outcome, seconds, note)

    def known(self, test: str) -> bool:
        """Whether a test need not run again."""
        return self.outcomes.get(test, ("", ""))[0] in OUTCOMES

    def wants(self, file: str, round_: Round) -> bool:
        """Whether a file has something left for a round."""
        said, note = self.outcomes.get(file, ("", ""))
        if said == "late":
            return int(note) < round_.limit_s
        return said in ("", "again") or (said == "quick" and round_.full)

    def forget_failures(self) -> None:
        """Failed tests, and files that could not be collected, run again."""
        failed = [test for test, (said, _) in self.outcomes.items() if said == "failed"]
        for name in {name for test in failed for name in (test, test.partition("::")[0])}:
            self.add(name, "again", 0)

    def table(self, files: Iterable[str]) -> str:
        """A line for each file that was begun, then sums, then each failure with its reason."""
        by_file: dict[str, Counter[str]] = {}
        for test, (said, _) in self.outcomes.items():
            by_file.setdefault(test.partition("::")[0], Counter())[said] += "::" in test
        lines = [f"{'passed':>6} {'failed':>6} {'skipped':>7} {'late':>5}  {'seconds':>7}  file"]
        total: Counter[str] = Counter()
        states: Counter[str] = Counter()
        for file in files:
            counts = by_file.get(file, Counter())
            state = self.outcomes.get(file, ("left", ""))[0].replace("again", "left")
            states[state] += 1
            total += counts
            if file in by_file:
                cells = f"{counts['passed']:6} {counts['failed']:6} {counts['skipped']:7}"
                seconds = self.seconds.get(file, 0.0)
                lines.append(f"{cells} {counts['late']:5}  {seconds:7.0f}  {file} ({state})")
        files_said = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        tests_said = ", ".join(f"{total[said]} {said}" for said in (*OUTCOMES, "late"))
        failures = [
            f"{test}: {note}" for test, (said, note) in self.outcomes.items() if said == "failed"
        ]
        return "\n".join([*lines, f"files: {files_said}", f"tests: {tests_said}", *failures])


@functools.cache
def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "-"


def environment(folder: Path) -> Path:
    """A virtual environment whose Python is emulated, with the packages of this one; its Python."""
    tools, names = folder / "bin", {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", names))
    for made in (tools, site):
        made.mkdir(parents=True, exist_ok=True)
    real = Path("/proc/self/exe").resolve()  # not sys.executable: that may be such a script
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\n", encoding="utf-8")
    pytest = find_spec("pytest")
    assert pytest is not None
    assert pytest.origin is not None
    packages = str(Path(pytest.origin).parents[1])  # in an emulated Python: not its own folder
    text = SITE.replace("PACKAGES", repr(packages))
    (site / "emulated_site.py").write_text(text, encoding="utf-8")
    (site / "emulated.pth").write_text("import emulated_site\n", encoding="utf-8")
    for tool in Path(sys.executable).parent.iterdir():
        own = tool.name.startswith("python") or tool.name == "loadstone"
        if not own and not (tools / tool.name).is_symlink():
            (tools / tool.name).symlink_to(tool)
    # By its path, since some tests start this with a PATH of their own.
    emulator = shutil.which(EMULATOR[0]) or EMULATOR[0]
    start = shlex.join([emulator, *EMULATOR[1:], "-0", str(tools / "python"), str(real)])
    _script(tools / "python", f'{start} "$@"')
    _script(tools / "loadstone", f'{start} -m loadstone "$@"')
    return tools / "python"


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\nexec {line}\n", encoding="utf-8")
    path.chmod(0o755)


# --- in the emulated process ----------------------------------------------------------------------
def _serve(files: Sequence[str], log: Log, seconds: float) -> None:
    end = time.monotonic() + seconds
    for module in MODULES:
        if find_spec(module.partition(".")[0]):
            import_module(module)
    from loadstone.vta.device.hw_config import load_config
    from loadstone.vta.simulator.sim import kernels_available

    print(f"{CPU}: kernels", *kernels_available(load_config("vtaq-1x16x16")), flush=True)
    for round_ in ROUNDS:
        for file in files:
            if time.monotonic() < end and log.wants(file, round_):
                _one(file, round_, log)
                log = Log(log.path)


def _one(file: str, round_: Round, log: Log) -> None:
    from tests.emulated_file import run

    NOW.unlink(missing_ok=True)
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        status = 1
        try:
            _into(FOLDER / "output" / f"{file.replace('/', '.')}.txt")
            status = run(file, log, round_.full)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    end = _end_of(child, round_.limit_s)
    taken = time.monotonic() - begin
    after = Log(log.path)
    if after.wants(file, round_):  # it did not come to say that it is through
        if NOW.is_file():
            after.add(NOW.read_text(encoding="utf-8"), "late", taken, end)
        after.add(file, "late", taken, str(round_.limit_s))
    print(f"{after.outcomes[file][0]:6} {taken:6.0f} s  {file}", flush=True)


def _end_of(child: int, limit_s: int) -> str:
    """How a file's process ended, or why it was ended."""
    used, since = 0.0, time.monotonic()
    while True:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            return f"its process ended with {os.waitstatus_to_exitcode(code)}"
        before, used = used, processor_seconds(child)
        since = time.monotonic() if used > before else since
        if used > limit_s or time.monotonic() > since + STILL_S:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if used > limit_s:
                return f"not through after {limit_s} s of processor time"
            return f"without processor time for {STILL_S} s"
        time.sleep(1)


def processor_seconds(group: int) -> float:
    """What the processes of a group, and those that they waited for, have used so far."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _into(output: Path) -> None:
    """What this process prints goes there from now on."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)


# --- the command ----------------------------------------------------------------------------------
def main(words: Sequence[str] | None = None) -> int:
    """Runs what is left; prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.emulated", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: every test file")
    parser.add_argument("--log", type=Path, default=LOG, help=f"default: {LOG.relative_to(ROOT)}")
    parser.add_argument("--seconds", type=float, default=1e9, help="no file begins later")
    parser.add_argument("--table", action="store_true", help="only print what is known")
    parser.add_argument("--failed", action="store_true", help="run failed tests again")
    parser.add_argument("--alone", action="store_true", help="each file in a fresh process")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    files = args.files or [str(path.relative_to(ROOT)) for path in _by_size()]
    log = Log(args.log)
    if args.serve:
        if args.alone:
            from tests.emulated_file import run

            return run(files[0], log, full=True)
        _serve(files, log, args.seconds)
        return 0
    if not args.table:
        if shutil.which(EMULATOR[0]) is None:
            parser.error(f"{EMULATOR[0]} is missing: apt-get install qemu-user")
        if args.failed:
            log.forget_failures()
        python = environment(FOLDER / "venv")
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        environ = {**os.environ, **dict.fromkeys(THREADS, "1"), "PATH": path}
        given = sys.argv[1:] if words is None else words
        command: list[str | Path] = [python, "-m", "tests.emulated", "--serve", *given]
        if args.alone:
            command = [*command[:4], "--alone", "--log", args.log]
        for more in [[file] for file in files] if args.alone else [[]]:
            subprocess.run([*command, *more], cwd=ROOT, env=environ, check=not args.alone)
        log = Log(args.log)
    print(log.table(files))
    return int(any(said == "failed" for said, _ in log.outcomes.values()))


def _by_size() -> list[Path]:
    """Every test file, the shortest first: it is a first guess of how long each takes."""
    return sorted((ROOT / "tests").rglob("test_*.py"), key=lambda path: path.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
