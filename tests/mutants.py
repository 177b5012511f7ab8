# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.mutants [FILE ...] [--changed-since REV] [--seconds S] [--seed K]`: do the tests
of a judge notice when it is wrong?

In:   judges: the files, in Python or C, that say whether a program is right; none: all.
Out:  for each judge how many changed ones its tests noticed; a line for each that they did not, and
      exit status 1 unless mutants.txt has it, with the reason why it decides the same.
Next: whoever changes a judge adds the test that a survivor asks for; test_mutants.py tries some.

A judge's tests run once on the judge as it is; then in a copy of a process for each mutant, until
one fails. Those come first that have noticed most mutants in least time. The process has in memory
what they import and what does not know the judge, so that a copy imports the changed judge, and
whoever asks it, anew. A test that takes more than ten times the processor time of all has noticed,
too.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from loadstone.library import native
from tests import measure
from tests.c_mutations import c_mutations, with_source
from tests.conftest import ROOT, THREADS
from tests.judges import FUNCTIONS, JUDGES
from tests.mutations import Mutation, mutations

__all__ = ["arguments", "main", "mutations_of", "work"]

LISTED = ROOT / "tests" / "mutants.txt"
#: Of processor time that a judge's tests take, so many times are a test that does not end.
TIMES, LEAST_SECONDS = 10, 5
#: Of time that passes, on a busy machine; and of memory: a mutant may ask for any amount.
WAIT_SECONDS, MEMORY_BYTES = 600, 8 << 30
#: Of many judges, so many share the time that is left: one that is slow to begin leaves some.
AT_ONCE = 10
_NOTICED, _ENDLESS, _SURVIVED = "noticed", "without end", "survived"


@dataclass(frozen=True)
class Judge:
    """A file, as it is named in lists; where it is; its module's name, of C ""; the files of its
    tests."""

    name: str
    path: Path
    module: str
    tests: Sequence[str]


@dataclass
class Order:
    """A plug-in of pytest. seconds: of each test, on the judge as it is; noticed: mutants that a
    test was the first to notice; failed: the one that fails in this process."""

    seconds: dict[str, float] = field(default_factory=dict)
    noticed: Counter[str] = field(default_factory=Counter)
    failed: str = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=self._worth, reverse=True)

    def _worth(self, item: pytest.Item) -> float:
        """Mutants noticed in a second; of a test that has noticed none, a part of one."""
        name = item.nodeid
        return (self.noticed[name] + 0.1) / (self.seconds.get(name, 0.0) + 0.005)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.failed = report.nodeid if report.failed else self.failed


# --- one judge ------------------------------------------------------------------------------------
class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a judge from a tree instead of its file."""

    def __init__(self, judge: Judge, tree: ast.Module) -> None:
        self.judge, self.tree = judge, tree

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self.judge.module:
            return None
        return importlib.util.spec_from_file_location(name, self.judge.path, loader=self)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        tree = ast.fix_missing_locations(self.tree)
        exec(compile(tree, str(self.judge.path), "exec"), vars(module))


def _run(judge: Judge, seconds: float, order: Order) -> int:
    """In a copy: the exit status of the judge's tests."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    signal.alarm(WAIT_SECONDS)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    words = ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *judge.tests]
    return int(pytest.main(words, plugins=[order]))


def _outcome(status: int) -> str:
    """What the end of a copy says. Only tests that ran and passed let a mutant live."""
    if os.WIFSIGNALED(status):
        return _ENDLESS if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM) else _NOTICED
    return _SURVIVED if os.WEXITSTATUS(status) == 0 else _NOTICED


def _read(judge: Judge) -> tuple[list[Mutation], Callable[[], None], Callable[[], None]]:
    """The mutants, which are made in a copy; what lets it have the judge as it is, and what lets it
    have a mutant that was made."""
    if judge.path.suffix == ".c":
        text = judge.path.read_text(encoding="utf-8")
        return c_mutations(judge.path), lambda: with_source(judge.path, text), lambda: None
    tree = ast.parse(judge.path.read_text(encoding="utf-8"))

    def imported() -> None:
        sys.meta_path.insert(0, _Changed(judge, tree))

    lines = _lines(tree, FUNCTIONS.get(judge.name))
    return [m for m in mutations(tree) if m.line in lines], imported, imported


def _lines(tree: ast.Module, names: set[str] | None) -> set[int]:
    """Those of the functions of these names; None: all."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef if names else ast.stmt)]
    if names:
        found = [node for node in found if getattr(node, "name", "") in names]
    return {n for node in found for n in range(node.lineno, (node.end_lineno or 0) + 1)}


def mutations_of(path: Path) -> list[Mutation]:
    """Of a file in Python or C."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return _read(Judge(name, path, "", ()))[0]


def _is_asked(judge: Judge) -> bool:
    """Whether the tests, which have run here, know the judge."""
    return judge.module in sys.modules if judge.module else native.lib.cache_info().hits > 0


def _prepare(judge: Judge, original: Callable[[], None]) -> tuple[float, Order]:
    """Runs the tests on the judge as it is, imports what they import and does not know the judge;
    the seconds of processor time that they took, all and each."""
    order = Order()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "modules")
        pid = os.fork()
        if pid == 0:
            status = 3
            with suppress(BaseException):
                original()
                status = _run(judge, 3600, order)
                status = status or (0 if _is_asked(judge) else 6)
                file.write_text(json.dumps((_modules(), order.seconds)))
            os._exit(status)
        _, status, used = os.wait4(pid, 0)
        why = {5: "has no tests", 6: "is not imported by its tests"}
        if status:
            what = why.get(os.waitstatus_to_exitcode(status), "does not pass its own tests")
            raise SystemExit(f"{judge.name} {what}: {' '.join(judge.tests)}")
        names, seconds = json.loads(file.read_text())
    knowing = _knowing(judge.module)
    for name in names:
        if name not in knowing:
            with suppress(ImportError):
                importlib.import_module(name)
            if judge.module in sys.modules:
                raise SystemExit(f"{judge.name}: measure.imports_of misses that {name} imports it")
    gc.collect()
    gc.freeze()
    return used.ru_utime + used.ru_stime, Order(seconds)


def _modules() -> list[str]:
    """What is imported here and stays as it is: installed packages, and modules of the package."""
    installed = sysconfig.get_path("purelib")
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    packages = {name for name, file in files.items() if file.startswith(installed)}
    return sorted({n for n in packages if "." not in n} | (files.keys() & measure.modules().keys()))


@cache
def _imports() -> dict[str, set[str]]:
    """Of each module of the package, what it imports: to import `a.b` is to import `a` first."""
    imports = {name: set(measure.imports_of(name)) for name in measure.modules()}
    for name, known in imports.items():
        for each in (name, *known.copy()):
            parts = each.split(".")
            known |= {".".join(parts[:n]) for n in range(1, len(parts))}
    measure.tree_of.cache_clear()  # no copy needs the trees of 800 files
    return imports


def _knowing(judge: str) -> set[str]:
    """Modules of the package that import the judge, directly or not, and those in their folders. Of
    a judge that is in C, or not in the package: none."""
    found: set[str] = {judge}
    if judge not in measure.modules():
        return found
    while new := {name for name, known in _imports().items() if known & found} - found:
        found |= new
    return found


def outcomes(
    judge: Judge, chosen: Sequence[int], jobs: int, until: float
) -> Iterator[tuple[Mutation, str]]:
    """Tries mutants by their numbers, as they end. until: when the last one may begin
    (time.monotonic); the first one always begins."""
    all_of_it, original, changed = _read(judge)
    used, order = _prepare(judge, original)
    seconds = max(LEAST_SECONDS, TIMES * used)
    running = dict[int, Mutation]()
    left, first = list(chosen), True
    with tempfile.TemporaryDirectory() as folder:
        while left or running:
            while left and len(running) < jobs and (first or time.monotonic() < until):
                first = False
                mutation = all_of_it[left.pop(0)]
                pid = os.fork()
                if pid == 0:
                    status = 3
                    with suppress(BaseException):
                        mutation.make()
                        changed()
                        status = _run(judge, seconds, order)
                        Path(folder, str(os.getpid())).write_text(order.failed)
                    os._exit(status)
                running[pid] = mutation
            if not running:
                return
            pid, status = os.wait()
            said = Path(folder, str(pid))
            if said.exists():
                order.noticed[said.read_text()] += 1
            yield running.pop(pid), _outcome(status)


# --- the list of those that decide the same -------------------------------------------------------
def listed(file: Path) -> dict[tuple[str, str, str], str]:
    """(judge, text of the line, mutation) -> why it decides the same. In the file: a judge's name,
    below it a line of it, below this a mutation, and the reason behind `  # `."""
    found: dict[tuple[str, str, str], str] = {}
    judge = line = ""
    for row in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        text = row.strip()
        if not text or row.startswith("#"):
            continue
        if not row.startswith(" "):
            judge = text
        elif not row.startswith("    "):
            line = text
        else:
            mutation, _, reason = text.partition("  #")
            if not reason.strip():
                raise SystemExit(f"{file.name}: {mutation} has no reason")
            found[judge, line, mutation] = reason.strip()
    return found


# --- the command ----------------------------------------------------------------------------------
def _changed_lines(judge: str, since: str) -> set[int] | None:
    """Lines of a judge that changed since a commit; None: its tests did, which is about all."""
    if subprocess.run(["git", "diff", "--quiet", since, "--", *JUDGES[judge]], cwd=ROOT).returncode:
        return None
    words = ["git", "diff", "-U0", since, "--", judge]
    shown = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines: set[int] = set()
    for row in shown.splitlines():
        if row.startswith("@@"):
            first, _, count = row.split("+")[1].split(" ")[0].partition(",")
            lines |= set(range(int(first), int(first) + int(count or 1)))
    return lines


def _try(judge: Judge, chosen: Sequence[int], args: argparse.Namespace, until: float) -> bool:
    """One judge: prints what became of its mutants; whether none is left that is not listed."""
    lines = judge.path.read_text(encoding="utf-8").splitlines()
    reasons = {key: why for key, why in listed(args.list).items() if key[0] == judge.name}
    counts, good, met = dict.fromkeys((_NOTICED, _ENDLESS, _SURVIVED), 0), True, set()
    for mutation, outcome in outcomes(judge, chosen, args.jobs, until):
        counts[outcome] += 1
        key = (judge.name, lines[mutation.line - 1].strip(), mutation.text)
        if outcome == _SURVIVED:
            met.add(key)
            if key not in reasons:
                good = False
                print(f"{judge.name}:{mutation.line}: survived: {mutation.text}", flush=True)
        elif key in reasons:
            good = False
            print(f"{args.list.name}: {mutation.text} is noticed: it need not be listed")
    tried = sum(counts.values())
    if args.all and tried == len(chosen) and reasons.keys() - met:
        good = False
        for _, line, text in sorted(reasons.keys() - met):
            print(f"{args.list.name}: no mutant {text} of `{line}` survives")
    shown = ", ".join(f"{count} {name}" for name, count in counts.items())
    shown += f", {len(met & reasons.keys())} of these listed"
    print(f"{judge.name}: {tried} of {len(chosen)} mutants: {shown}", flush=True)
    return good


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The words of the command; files by the names that the table has for them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="judges; none: all")
    parser.add_argument("--changed-since", metavar="REV", help="lines changed since a commit alone")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all together")
    parser.add_argument("--seed", type=int, help="in random order: a sample, with --seconds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at the same time")
    parser.add_argument("--tests", nargs="+", help="of a judge that is not in the table")
    parser.add_argument("--list", type=Path, default=LISTED, help="mutants that decide the same")
    args = parser.parse_args(words)
    args.all = args.changed_since is None
    args.files = [_named(file) for file in args.files]
    unknown = [file for file in args.files if file not in JUDGES and not args.tests]
    if unknown:
        parser.error(f"{unknown[0]} is no judge: {', '.join(JUDGES)}; or say its --tests")
    return args


def _path(file: str) -> Path:
    """From this folder on, or from the tree's."""
    here = Path(file).resolve()
    return here if here.is_file() else ROOT / file


def _named(file: str) -> str:
    """As the table and the list name a judge, however it is asked for: by its place in the tree."""
    path = _path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else file


def _module(name: str, path: Path) -> str:
    """As its tests import it: a file that is elsewhere by its own name. Of C ""."""
    if path.suffix == ".c":
        return ""
    parts = Path(name).with_suffix("").parts
    if not path.is_relative_to(ROOT):
        return path.stem
    return ".".join(parts[1:] if parts[0] == "python" else parts)


def main(words: Sequence[str] | None = None) -> int:
    """Tries the mutants; 1 when one survives that is not listed."""
    args = arguments(words)
    os.environ.update(dict.fromkeys(THREADS, "1"), CI="1")  # hypothesis draws the same each time
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return _try_all(work(args), args)


def work(args: argparse.Namespace) -> list[tuple[Judge, list[int]]]:
    """The judges of which any mutants are to be tried, and the numbers of these; both in random
    order where a seed is given."""
    work = list[tuple[Judge, list[int]]]()
    for name in args.files or JUDGES:
        path = _path(name)
        judge = Judge(name, path, _module(name, path), args.tests or JUDGES[name])
        lines = None if args.all else _changed_lines(name, args.changed_since)
        found = enumerate(mutations_of(path))
        chosen = [k for k, m in found if lines is None or m.line in lines]
        if chosen:
            work.append((judge, chosen))
    if args.seed is not None:
        rng = random.Random(args.seed)
        rng.shuffle(work)
        for _, chosen in work:
            rng.shuffle(chosen)
    return work


def _try_all(work: Sequence[tuple[Judge, list[int]]], args: argparse.Namespace) -> int:
    """Tries the judges one after the other, until their time is over; the exit status."""
    until, status = time.monotonic() + args.seconds, 0
    if any(judge.module in measure.modules() for judge, _ in work):
        _imports()  # once: it takes longer than most mutants
    for place, (judge, chosen) in enumerate(work):
        left = until - time.monotonic()  # those behind this one get their share
        if left <= 0:
            print(f"{len(work) - place} of {len(work)} judges had no time")
            break
        mine = time.monotonic() + left / min(len(work) - place, AT_ONCE)
        sys.stdout.flush()
        pid = os.fork()  # what one judge's tests import, the next one's need not know
        if pid == 0:
            good = False
            try:
                good = _try(judge, chosen, args, mine)
            except SystemExit as end:
                print(end, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0 if good else 1)
        status |= os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    return status


if __name__ == "__main__":
    sys.exit(main())
