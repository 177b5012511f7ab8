# SPDX-License-Identifier: Apache-2.0
"""What import-linter cannot say of the tree: what runs without TVM, which headers C files include,
and that every file has a header. Who may import whom stands in pyproject.toml.

A board has NumPy and cffi, no TVM and no compiler: what runs there must not reach TVM, also not
through a package's __init__ (without_tvm.py).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatch

import pytest

from loadstone.cli import COMMANDS
from tests.conftest import ROOT
from tests.measure import modules
from tests.repeat import SLOW
from tests.without_tvm import foreign_to, reached_from

PACKAGE = ROOT / "python" / "loadstone"

#: Work without TVM, onnx, tflite: on a board, and for anybody who only looks at instructions.
WITHOUT_TVM = (
    "loadstone",
    "loadstone.__main__",
    "loadstone.library.native",
    "loadstone.artifact.arena",
    "loadstone.runtime.arrays",
    "loadstone.artifact.format",
    "loadstone.backend",
    "loadstone.backend.builtin",
    "loadstone.backend.device",
    "loadstone.backend.external",
    "loadstone.backend.interface",
    "loadstone.cli",
    "loadstone.runtime.device",
    "loadstone.errors",
    "loadstone.graph*",
    "loadstone.artifact.host_step",
    "loadstone.artifact.memory_plan",
    "loadstone.numerics",
    "loadstone.graph.kernels*",
    "loadstone.backend.plugins",
    "loadstone.printable",
    "loadstone.backend.region",
    "loadstone.vta.simulator.replay",
    "loadstone.runtime.session",
    "loadstone.vta.simulator.sim",
    "loadstone.simulator.server",
    "loadstone.simulator.simd",
    "loadstone.vta.simulator.trace",
    "loadstone.vta.simulator.vectors",
    "loadstone.vta",
    "loadstone.vta.builtin",
    "loadstone.vta.device.hw_config",
    "loadstone.vta.isa*",
    "loadstone.vta.meaning.listing",
    "loadstone.vta.meaning.reference",
    *(
        f"loadstone.commands.{name}"
        for name in (
            "devices",
            "disasm",
            "asm",
            "completion",
            "run",
            "replay",
            "vectors",
            "inspect",
            "simd",
            "backend",
            "mcp",
        )
    ),
)
#: folder -> the headers of other folders that its C files may include; "*" files are the folder's
#: own.
C_HEADERS = {
    "runtime": {"lds_hal.h", "lds_isa.h"},
    "runtime/hosts": {
        *("loadstone.h", "lds_schedule.h", "lds_hal.h", "lds_isa.h", "lds_simdev.h"),
        *("lds_hal_sim.h", "lds_hal_simd.h", "lds_hal_linux.h", "lds_packets.h"),
    },
    "driver": {"lds_hal.h", "lds_isa.h", "lds_simdev.h"},
    # and what Verilator makes of hw_sim/rtl
    "hw_sim": {"lds_isa.h", "Vlds_device.h", "verilated.h"},
    "native": set(),
}
#: Knows the drivers by name, and has a heap: what else is in runtime/ does and has not.
HOSTS = ROOT / "runtime/hosts"
#: Collects everything that the library exports, for cffi.
C_EXEMPT = ("runtime/include/lds_api.h",)


def matching(patterns: Iterable[str]) -> list[str]:
    return [name for name in modules() if any(fnmatch(name, pattern) for pattern in patterns)]


def test_the_graph_sees_what_is_there() -> None:
    assert reached_from("loadstone.partition.eager")["tvm"] == "loadstone.relax.compat"
    assert "loadstone.relax.compat" not in reached_from(
        "loadstone.graph.reference"
    )  # in a function
    assert "loadstone.vta" in reached_from("loadstone.vta.isa.spec")  # a package's __init__


@pytest.mark.parametrize("module", matching(WITHOUT_TVM))
def test_what_a_board_uses_needs_numpy_and_cffi_alone(module: str) -> None:
    assert foreign_to(module) == {}


def test_c_folders_know_only_their_interfaces() -> None:
    seen = 0
    for folder, allowed in C_HEADERS.items():
        files = [
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".c", ".h", ".cc", ".inc")
            and (folder == "runtime/hosts" or HOSTS not in path.parents)
        ]
        own = {p.name for p in files}
        for path in files:
            if path.relative_to(ROOT).as_posix() in C_EXEMPT:
                continue
            for header in re.findall(
                r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE
            ):
                assert header in own | allowed, f"{path.relative_to(ROOT)} includes {header}"
                seen += 1
    assert seen > 20


def test_slow_tests_exist() -> None:
    for name in SLOW:
        file, _, test = name.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert test.partition("[")[0] in functions, name


def test_every_file_begins_with_its_header() -> None:
    for name, path in modules().items():
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert doc, f"{path} has no header"
        if path.name != "__init__.py":
            assert all(f"\n{word}" in doc for word in ("In:", "Out:", "Next:")), (
                f"{name}: the header says In:, Out:, Next:"
            )


# --- and in fact ----------------------------------------------------------------------------------
BLOCKED = """
import sys
from importlib.abc import MetaPathFinder
class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
from loadstone.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["devices"],
        ["devices", "vtaq-tiny", "--json"],
        ["disasm", "-"],
        ["asm", "-", "-o", "-"],
        *([name, "--help"] for name in ("run", "replay", "vectors", "inspect") if name in COMMANDS),
    ],
    ids=" ".join,
)
def test_commands_that_run_without_tvm(words: list[str]) -> None:
    script = BLOCKED.format(
        names={
            "tvm",
            "tvm_ffi",
            "onnx",
            "onnxruntime",
            "tflite",
            "ai_edge_litert",
            "torch",
            "tqdm",
            "sklearn",
            "flatbuffers",
        }
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
