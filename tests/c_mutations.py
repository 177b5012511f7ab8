# SPDX-License-Identifier: Apache-2.0
"""The changes of a C file that its tests must notice.

In:   the text of a file of runtime/.
Out:  `c_mutations`: each change, which compiles the changed file, links it with the objects of
      `make lib`, and lets Python open this library instead of its own.
Next: mutants.py runs the tests of the file on each.

Changes are those of mutations.py as far as tokens show them: a comparison, a limit by one, an
operator, a condition that no longer refuses. Comments, preprocessor lines and texts stay. What a
compiler refuses was noticed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from loadstone.library import native
from tests.conftest import ROOT
from tests.mutations import Mutation

__all__ = ["c_mutations", "with_source"]

BUILD = ROOT / "build" / "native"
_OTHERS = {
    "<": ["<="],
    "<=": ["<"],
    ">": [">="],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
    "&&": ["||"],
    "||": ["&&"],
    "+": ["-"],
    "-": ["+"],
    "<<": [">>"],
    ">>": ["<<"],
}
#: What is no change: whole comments, texts, lines of the preprocessor, pointers and casts.
_SKIPPED = (
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'|^[ \t]*#[^\n]*"
    r"|->|\+\+|--|[-+*/|&^]="
)
_NUMBER = r"\b(?:0[xX][0-9a-fA-F]+|\d+)(?=[uU]?\b)"
_OPERATOR = r"&&|\|\||<<|>>|<=|>=|==|!=|(?<=\s)[-+<>](?=\s)"
_REFUSAL = r"\bif \((?P<test>.*)\) return (?:LDS_ERR_\w+|0);"
_TOKEN = re.compile(
    f"(?P<skipped>{_SKIPPED})|(?P<number>{_NUMBER})|(?P<operator>{_OPERATOR})",
    re.DOTALL | re.MULTILINE,
)


def c_mutations(path: Path) -> list[Mutation]:
    """All changes of the file, in the order of its lines."""
    source = path.read_text(encoding="utf-8")
    found = []
    for start, end, new in sorted(_changes(source)):
        line = source.count("\n", 0, start) + 1
        first = source.rfind("\n", 0, start) + 1
        column = start - first
        text = f"{source[start:end]} -> {new} in column {column}"
        found.append(Mutation(line, text, _maker(path, source[:start] + new + source[end:])))
    return found


def _changes(source: str) -> Iterator[tuple[int, int, str]]:
    """Places in the text, and what takes theirs."""
    for token in _TOKEN.finditer(source):
        if token["operator"]:
            for other in _OTHERS[token["operator"]]:
                yield *token.span(), other
        elif token["number"]:
            value = int(token["number"], 0)
            for other_value in (value - 1, value + 1):
                if other_value >= 0:
                    yield *token.span(), str(other_value)
    for refusal in re.finditer(_REFUSAL, source):
        yield *refusal.span("test"), "0"


def _maker(path: Path, source: str) -> Callable[[], Callable[[], None]]:
    def make() -> Callable[[], None]:
        with_source(path, source)
        return native.lib.cache_clear

    return make


def with_source(path: Path, source: str) -> None:
    """From here on this process opens a library whose file `path` has another text. Raises
    CalledProcessError where it does not compile."""
    compiler, objects = _commands(path)
    with tempfile.TemporaryDirectory() as folder:
        changed, made = Path(folder, path.name), Path(folder, "changed.o")
        changed.write_text(source, encoding="utf-8")
        words = [*compiler, f"-I{path.parent}", "-c", str(changed), "-o", str(made)]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        library = Path(folder, f"changed-{os.getpid()}.so")
        link = ["c++", "-shared", "-Wl,-z,nodelete", "-pthread"]
        subprocess.run([*link, *objects, str(made), "-o", str(library)], check=True, cwd=BUILD)
        native.lib.cache_clear()
        native._LIBRARY = library
        native.lib()


def _commands(path: Path) -> tuple[list[str], list[str]]:
    """How the file is compiled, without warnings and quickly; and the library's other objects."""
    ninja = (BUILD / "build.ninja").read_text(encoding="utf-8")
    own = f"{path.relative_to(ROOT)}.o"
    rule = re.search(rf"^build [^\n]*{re.escape(own)}:.*?\n\n", ninja, re.DOTALL | re.MULTILINE)
    library = re.search(r"^build libloadstone\.so: [^\n]*$", ninja, re.MULTILINE)
    assert rule is not None, f"make lib has not compiled {own}"
    assert library is not None
    said = dict(re.findall(r"^  (\w+) = (.*)$", rule[0], re.MULTILINE))
    words = shlex.split(f"{said['DEFINES']} {said['INCLUDES']} {said['FLAGS']}")
    kept = [word for word in words if not word.startswith(("-W", "-O", "-pedantic"))]
    objects = [word for word in library[0].split() if word.endswith(".o")]
    return ["cc", *kept, "-O1", "-w"], [word for word in objects if not word.endswith(own)]
