# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree that a test may change, and the commands that run in it.

In:   the checkout.
Out:  `TreeCopy`: files of the package or of the repository by the names that people use for them,
      edits at a text that stands there once, Python and pytest on the copy's own package.
Next: tests/docs/test_contributing.py carries out the recipes of CONTRIBUTING.md in it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ROOT

__all__ = ["TreeCopy"]

FOLDERS = ("python", "runtime", "driver", "hw_sim", "native", "tests", "docs", "tools")
FILES = ("CMakeLists.txt", "CONTRIBUTING.md", "README.md", "pyproject.toml")
#: An editable install has a finder of its own, which would find the checkout's package first.
LAUNCH = """
import runpy, sys
sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]
sys.path[:0] = {path!r}
import loadstone
assert loadstone.__file__.startswith({root!r}), loadstone.__file__
sys.argv[:] = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@dataclass
class TreeCopy:
    """The tracked folders below `root`, with the library as it is built."""

    root: Path
    edited: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, root: Path) -> TreeCopy:
        """Copies what a build and the tests need, compiled modules too: their sources keep their
        times. No environment, no build."""
        leave = shutil.ignore_patterns("csrc")
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, root / folder, ignore=leave)
        for file in FILES:
            shutil.copy(ROOT / file, root / file)
        return cls(root)

    def path(self, name: str) -> Path:
        """`vta/stream/cost.py` of the package, or `runtime/validate.c` of the repository."""
        ours = self.root / "python/loadstone" / name
        return ours if ours.exists() or not (self.root / name).parent.is_dir() else self.root / name

    def edit(self, name: str, old: str, new: str) -> None:
        """Replaces a text that stands in the file once."""
        path = self.path(name)
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")
        self.edited.add(name)

    def append(self, name: str, text: str) -> None:
        """Adds to the end of a file."""
        with self.path(name).open("a", encoding="utf-8") as file:
            file.write(text)
        self.edited.add(name)

    def write(self, name: str, text: str) -> None:
        """A new file of the package."""
        (self.root / "python/loadstone" / name).write_text(text, encoding="utf-8")
        self.edited.add(name)

    def run(self, module: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """`python -m module words`, with the copy's package and tests."""
        path = [str(self.root / "python"), str(self.root)]
        script = LAUNCH.format(path=path, root=str(self.root))
        return subprocess.run(
            [sys.executable, "-c", script, module, *map(str, words)],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def pytest(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Tests of the copy, in this process's share of the machine."""
        return self.run("pytest", "-q", "-p", "no:xdist", *words)

    def script(self, text: str) -> str:
        """What a script prints that must end well."""
        (self.root / "script_of_a_test.py").write_text(text, encoding="utf-8")
        return self.says("script_of_a_test")

    def says(self, module: str, *words: str | Path) -> str:
        """What a command prints that must end well."""
        done = self.run(module, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
