# SPDX-License-Identifier: Apache-2.0
"""Every file and module that a document, a header or a comment names is in the tree.

A name is looked for beside the file that names it, in the folders above it, in the package, and in
the folders of C headers. So `device.py` in compiler.py has to be written `runtime/device.py`: the
reader finds it as it stands. What lies behind an address on the web, and what a reader makes
himself (`samples.npz`, `mine/npu.py`), is no name of ours: only endings of source files count, and
EXAMPLES lists the rest, for each document.

The records of docs/decisions/ and CHANGELOG.md name things as they were when they were decided: of
them nothing is asked.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "python/loadstone"
#: Where else a name may be looked for, besides beside the file and above it.
BASES = (
    PACKAGE,
    ROOT / "runtime/include",
    ROOT / "runtime/hosts",
    ROOT / "runtime/hosts/include",
    ROOT / "driver/include",
    ROOT / "hw_sim/include",
    ROOT / "native",
    ROOT / "tests",
)
#: A name of a source file. What stands before it must not make it part of a longer word or path.
FILE = re.compile(
    r"(?<![\w/.$*{}-])((?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.(?:py|c|h|cc|hh|inc|md|svg|json|dts|cmake))(?![\w*(/-])"
)
MODULE = re.compile(r"(?<![\w./])loadstone((?:\.(?!md\b)\w+)+)")
#: History: names as they were.
HISTORY = ("docs/decisions/", "CHANGELOG.md")
#: Names that are no file of ours, by the file that names them ("*": any), and why.
EXAMPLES: dict[str, tuple[str, ...]] = {
    # VTA's own device file; what users make; the name of an external function; of `tune`
    "*": ("vta_config.json", "mine.json", "index.json", "loadstone.c", "tuned.json", "proof.json"),
    "docs/bring-your-own-accelerator.md": (
        "mine/npu.py",
        "mine/test_npu.py",
        "own/dla.py",
        "spoiled/npu.py",
        "costs.json",
        "model.h",
        "NAME_meaning.h",
    ),
    "docs/language-models.md": ("model.words.json", "tokenizer.json"),
    "docs/c-projects.md": ("classify/classify.c",),
    "docs/any-scale.md": ("lane.py", "average.py"),
    "docs/deploy.md": ("path/to/vta_config.json", "board.c", "idf.py", "model.h"),
    "docs/choose-a-device.md": ("best.json",),
    "python/loadstone/commands/sweep.py": ("best.json",),
    "docs/tune.md": ("cycles.py", "net.costs.json", "large.json"),
    "docs/tutorial.md": ("one_convolution.py",),
    "driver/devicetree/README.md": ("NAME.dts",),
    "hw_sim/constants.h": ("vta/devices/timing/NAME.json",),
    "hw_sim/include/lds_sim.h": ("vta/devices/timing/NAME.json",),
    "python/loadstone/backend/template/test_backend.py": ("my_npu.py",),  # the file as written
    "python/loadstone/backend/template/test_isa_backend.py": ("my_npu.py",),
    # one folder in the exported project, with what `loadstone export` writes
    "python/loadstone/boards/cortex-m/startup.c": ("board.h", "main.c"),
    "python/loadstone/boards/firmware/board.h": ("board.c", "startup.c"),
    "python/loadstone/boards/firmware/device.c": ("board.c", "model.h"),
    "python/loadstone/boards/firmware/main.c": ("board.c",),
    "python/loadstone/boards/firmware/print.c": ("board.c", "startup.c"),
    "python/loadstone/boards/riscv/startup.c": ("main.c",),
    "python/loadstone/boards/several/main.c": ("board.c",),
    "python/loadstone/boards/several/networks.h": ("networks.c",),
    "python/loadstone/commands/backend.py": ("DIR/NAME.py", "DIR/test_NAME.py"),
    "python/loadstone/commands/export.py": ("main.c",),
    "python/loadstone/commands/exported_accelerators.py": ("main.c", "model.h"),
    "python/loadstone/commands/exported_steps.py": ("main.c",),
    "tests/board/guest/firmware.c": ("model.h",),
    "runtime/FORMAT.md": ("stdint.h",),
    "driver/README.md": ("board.c",),
    "python/loadstone/errors.py": ("npu.py",),
    "python/loadstone/isa/c_meaning.py": ("NAME_meaning.h",),  # generated for the plug-in's own C
    "python/loadstone/runtime/c_meanings.py": ("NAME_meaning.h",),
    "python/loadstone/runtime/footprint.py": ("model.h",),
    "docs/examples/word_fifo/vector_engine_meaning.c": ("vector_engine_meaning.h",),
    "python/loadstone/ir_pass/c_source.py": ("npu.h",),
    "tools/rtl_synthesis.py": ("build/rtl/NAME/TOP.json",),
    "python/loadstone/vta/device/timing_tables.py": ("devices/timing/NAME.json",),
    "runtime/hosts/litert/litert_api.h": ("tflite/core/c/common.h",),  # of LiteRT
    "runtime/hosts/litert/subgraph.c": ("tflite/c/builtin_op_data.h",),
    "packages/loadstone-mlonmcu/loadstone_mlonmcu/mlif/main.c": (
        "mlonmcu/target/target.py",
    ),  # of MLonMCU
    "packages/loadstone-mlonmcu/loadstone_mlonmcu/mlif/mlif.c": (
        "run_config.h",
    ),  # its CMakeLists.txt writes it
    "packages/loadstone-mlonmcu/loadstone_mlonmcu/mlif/support/exit.h": (
        "mlonmcu/platform/mlif/mlif_target.py",
    ),
    "runtime/hosts/tvm/lds_tvm.h": ("tvm/ffi/c_api.h",),  # of tvm_ffi's wheel
    "runtime/hosts/tvm/wheel/tvm/support/io.h": ("tvm/runtime/tensor.h", "tensor.h"),  # of TVM's
    "runtime/hosts/tvm/wheel/tvm/support/serializer.h": ("tvm/runtime/tensor.h",),
    "tests/docs/test_references.py": ("device.py", "mine/npu.py"),
    # what `make lab` writes
    "tools/lab/__main__.py": ("exercises.json", "devices.json"),
    "tools/lab/page_data.py": ("exercises.json", "devices.json"),
}
#: Dotted names that are no module of ours: attributes of a Relax function, groups, names of passes,
#: options of MLonMCU, global functions of TVM.
NO_MODULES = (
    *("loadstone.backends", "loadstone.outputs", "loadstone.operator", "loadstone.relax"),
    *("loadstone.c", "loadstone.strategy", "loadstone.device"),
    *("loadstone.memory", "loadstone.memory.empty", "loadstone.memory.bus"),
    "loadstone.memory.copied_bytes",
)
FOLDERS = (
    "docs",
    "driver",
    "hw_sim",
    "lab",
    "native",
    "packages",
    "python",
    "runtime",
    "tests",
    "tools",
)
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def documents() -> list[Path]:
    """Files whose text names other files, as git has them."""
    found = [path for path in ROOT.iterdir() if path.suffix == ".md"]
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".md", ".svg", ".py", ".c", ".h", ".cc", ".hh", ".inc", ".cmake"):
                found.append(path)
    generated = {PACKAGE / "_api.h"}
    return sorted(
        path
        for path in found
        if not path.relative_to(ROOT).as_posix().startswith(HISTORY) and path not in generated
    )


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what a file says to people: a page, or the docstrings and comments of
    code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".md", ".svg"):
        yield 1, text
    elif path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                doc = ast.get_docstring(node, clean=False)
                if doc is not None:
                    yield node.body[0].lineno, doc
        if any(names_something(line.partition("#")[2]) for line in text.splitlines()):
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    yield token.start[0], token.string
    else:
        for comment in C_COMMENT.finditer(text):
            yield text.count("\n", 0, comment.start()) + 1, comment[0]


def names_something(text: str) -> bool:
    """Whether a name of a file or a module may stand in it: where none does, no comment has one."""
    return "." in text and bool(FILE.search(text) or MODULE.search(text))


def stale(path: Path) -> list[str]:
    """`file:line: name` of every reference that leads nowhere."""
    problems = []
    for line, text in prose(path):
        for pattern, leads in ((FILE, leads_to_file), (MODULE, leads_to_module)):
            for match in pattern.finditer(re.sub(r"https?://\S+", "", text)):
                if not leads(match[0], path):
                    at = line + text.count("\n", 0, text.find(match[0]))
                    problems.append(f"{path.relative_to(ROOT)}:{at}: {match[0]}")
    return problems


def leads_to_file(name: str, path: Path) -> bool:
    """Whether `name`, as written in `path`, is a file."""
    place = path.relative_to(ROOT).as_posix()
    if name in EXAMPLES["*"] or name in EXAMPLES.get(place, ()):
        return True
    if name.startswith("../shared/"):  # models and vectors lie beside the checkout, or are absent
        return True
    above = [folder for folder in path.parents if folder == ROOT or ROOT in folder.parents]
    if ROOT / "tests" in path.parents:  # a test may name its module short
        above.append(PACKAGE / path.parent.relative_to(ROOT / "tests"))
    return any((base / name).is_file() for base in (*above, *BASES))


def leads_to_module(name: str, _path: Path) -> bool:
    """Whether a dotted name is a module of the package, or a name that stands in one."""
    if name in NO_MODULES:
        return True
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = ROOT / "python" / "/".join(parts[:length])
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                rest = parts[length:]
                return not rest or rest[0] in words_of(file)
        if base.is_dir() and length == len(parts):
            return True
    return False


@cache
def words_of(path: Path) -> frozenset[str]:
    """Every word of a file."""
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_every_name_leads_somewhere(folder: str) -> None:
    problems = [
        problem
        for path in documents()
        if (path.relative_to(ROOT).parts[0] if path.parent != ROOT else "") == folder
        for problem in stale(path)
    ]
    assert problems == [], "\n".join(problems)


def test_a_stale_name_is_found() -> None:
    here = ROOT / "python/loadstone/compiler.py"
    assert leads_to_file("runtime/device.py", here)
    assert leads_to_file("numerics.py", ROOT / "python/loadstone/vta/meaning/reference.py")
    assert leads_to_file("lds_hal.h", ROOT / "runtime/run.c")
    assert not leads_to_file("device.py", here)
    assert not leads_to_file("runtime/gone.py", here)
    assert leads_to_module("loadstone.vta.isa.spec", here)
    assert leads_to_module("loadstone.vta.isa.spec.Capability", here)
    assert not leads_to_module("loadstone.artifact_file", here)
    assert FILE.findall("see `vta/fold.py`, (rq.c), x.cc: a/b-c/d.md") == [
        "vta/fold.py",
        "rq.c",
        "x.cc",
        "a/b-c/d.md",
    ]
    assert FILE.findall('<text class="where">vta/kernels/from_nests.py</text>') == [
        "vta/kernels/from_nests.py"
    ]
    assert FILE.findall("in0.copy(), a.b, *.py, http://x.c/d.html") == []
