# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.repeat import ALL, REPEATED, SLOW, is_repeated, is_slow

#: Read when numpy, TVM or PyTorch is first imported, which is after this file. Tests run in as many
#: processes as there are cores: threads of their own would only wait for each other.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.update(dict.fromkeys(THREADS, "1"))

#: No test compiles for a GPU: TVM is imported as in a command (relax/compat.py), which takes half
#: the time, in each Python that a test starts.
os.environ.setdefault("TVM_DEVICE_BACKEND_AUTOLOAD", "0")

#: Some hundred tests start a Python of their own: what one has compiled, the next need not,
#: whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: Examples take as long as they take; in CI the same ones are drawn each time, so that a red run is
#: about the change.
settings.register_profile("loadstone", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("loadstone")

#: The verifier of each pass of the VTA pipeline runs behind it (vta/passes/pipeline.py).
os.environ.setdefault("LOADSTONE_VERIFY", "1")

#: What tests compile is not remembered as the user's own: the state folder stays as it is, and
#: files are asked for as ones from elsewhere (runtime/own_files.py). Its own tests name a folder.
os.environ["XDG_STATE_HOME"] = "/dev/null"

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("LOADSTONE_SHARED", ROOT.parent / "shared"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --update-golden` writes the texts in tests/golden anew: read the difference before
    you commit it."""
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden texts are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """`figure(text)`: what a test measured, printed after the last test (from every process, when
    tests run in several)."""
    return lambda text: request.node.user_properties.append(("figure", text))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Repetitions are left out unless all is asked for; files with slow tests come first, so that
    none of these runs alone at the end. Which rung of the ladder (docs/boards/emulated.md) a test
    is on travels with its report."""
    if config.option.markexpr == "slow" and not any("::" in word for word in config.args):
        _check_names(items)
    for item in items:
        if is_repeated(item.nodeid):
            item.add_marker("more")
    repeated = {item for item in items if item.get_closest_marker("more") and not ALL}
    if repeated:
        config.hook.pytest_deselected(items=list(repeated))
        items[:] = [item for item in items if item not in repeated]
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker("slow")
    slow = {item.path for item in items if item.get_closest_marker("full")}
    items.sort(key=lambda item: item.path not in slow)
    for item in items:
        if (rung := item.get_closest_marker("rung")) is not None:
            item.user_properties.append(("rung", rung.args[0]))


def _check_names(items: Sequence[pytest.Item]) -> None:
    """Of the files that are here, slow.txt and more.txt name tests and parameters that exist: one
    that got another name would run in `make test` from then on."""
    files = {item.location[0] for item in items}
    known = {name for item in items for name in (item.nodeid, item.nodeid.partition("[")[0])}
    for file, names in (("slow.txt", SLOW), ("more.txt", REPEATED)):
        unknown = {line for line in names if line.partition("::")[0] in files} - known
        if unknown:
            raise pytest.UsageError(f"tests/{file} names no test by {', '.join(sorted(unknown))}")


def pytest_collectstart() -> None:
    """What tests and the libraries that they import make until the first test runs is kept: to look
    for garbage among it would be a fourth of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is there now, modules and tests, stays: no collection of garbage looks at it again. What
    a compiler makes is mostly kept, and rarely in circles: it is looked at ten times less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(7_000, 20, 20)
    gc.enable()


def _rungs(reports: list[pytest.TestReport]) -> list[str]:
    """What each rung took, with its tests' preparation."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in reports:
        for rung in (str(value) for key, value in report.user_properties if key == "rung"):
            seconds[rung] += report.duration
            tests[rung] += report.when == "call"
    return [f"rung {rung}: {tests[rung]} tests, {seconds[rung]:.1f} s" for rung in sorted(seconds)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the figures, in the order of the tests, and the time of each rung."""
    reports = [
        report
        for kind in terminalreporter.stats.values()
        for report in kind
        if isinstance(report, pytest.TestReport)
    ]
    reports.sort(key=lambda report: str(report.nodeid))
    figures = [
        value
        for report in reports
        if report.when == "teardown"
        for key, value in report.user_properties
        if key == "figure"
    ]
    figures += _rungs(reports)
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(map(str, figures)))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and RTL vectors beside the checkout; tests that need it are skipped
    where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(
            f"{SHARED} is absent: set LOADSTONE_SHARED to the folder that holds models/ and "
            "vta_rtl/"
        )
    return SHARED


@pytest.fixture(scope="session")
def vectors(shared: Path) -> list[Path]:
    """Every program measured on VTA's RTL."""
    return sorted((shared / "vta_rtl").glob("*.npz"))
