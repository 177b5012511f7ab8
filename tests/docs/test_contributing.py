# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md's recipes, carried out in a copy of the tree: each gives what works, and
touches only files that it names.

Behind the last step the tests of tables pass. `make test-all` also sees them fail behind the first,
and say what is missing; and it builds the library for a new instruction.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from tests.conftest import ROOT
from tests.repeat import ALL, more
from tests.tree_copy import TreeCopy

TABLES = ("tests/test_tables.py", "tests/test_tables_in_c.py")


@pytest.fixture
def tree(tmp_path: Path) -> TreeCopy:
    return TreeCopy.at(tmp_path / "tree")


def recipe(title: str) -> set[str]:
    """The files and folders that a section names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {title}[^\n]*\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    return {name for name in re.findall(r"`([^` ]+)`", section) if re.search(r"\.\w+$|/$", name)}


def only_named(tree: TreeCopy, title: str) -> bool:
    """Whether the recipe names every file that was edited, or a folder that it is in."""
    named = recipe(title)
    folders = tuple(name for name in named if name.endswith("/"))
    patterns = [re.escape(name).replace(r"\*", ".*").replace("<name>", ".*") for name in named]
    return all(
        edited.startswith(folders) or any(re.fullmatch(p, edited) for p in patterns)
        for edited in tree.edited
    )


def test_a_recipe_is_read_as_it_stands() -> None:
    assert {"vta/isa/spec.py", "runtime/validate.c"} <= recipe("To add an instruction")
    assert {"graph/", "conformance/cases.py"} <= recipe("To add an operator")
    tree = TreeCopy(ROOT, {"graph/elementwise.py"})
    assert only_named(tree, "To add an operator")
    assert not only_named(tree, "To add a command")


# --- a command ------------------------------------------------------------------------------------
COMMAND = '''"""loadstone count: how many instructions a file has.

In:   a file of instructions.
Out:  a number.
Next: people read it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from loadstone.vta.isa.spec import INSN_BYTES


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds FILE."""
    parser.epilog = "examples:\\n  loadstone count a.bin\\n"
    parser.add_argument("file", type=Path)


def run(args: argparse.Namespace) -> int:
    """Prints the number."""
    print(args.file.stat().st_size // INSN_BYTES)
    return 0
'''


@more
def test_a_command(tree: TreeCopy, tmp_path: Path) -> None:
    tree.edit("cli.py", '    "disasm":', '    "count": "count instructions",\n    "disasm":')
    tree.write("commands/count.py", COMMAND)
    if ALL:
        unheld = tree.pytest("tests/test_tables.py", "-k", "needs_no_tvm")
        assert "add to WITHOUT_TVM of tests/test_layers.py: ['loadstone.commands.count']" in (
            unheld.stdout
        )
    tree.edit("tests/test_layers.py", '            "disasm",\n', '            "count",\n            "disasm",\n')  # fmt: skip # noqa: E501
    (tmp_path / "a.bin").write_bytes(bytes(48))
    assert tree.says("loadstone", "count", tmp_path / "a.bin") == "3\n"
    done = tree.pytest(
        "tests/test_tables.py",
        "tests/test_cli.py",
        "-k",
        "needs_no_tvm or is_a_module or help and count",
    )
    assert done.returncode == 0, done.stdout
    assert only_named(tree, "To add a command")


# --- a device -------------------------------------------------------------------------------------
CONVOLUTIONS = """
from itertools import islice
from loadstone.backend.target import resolve
from loadstone.conformance.check import conform
for verdict in islice(conform(resolve("vtaq-mine"), 1), 1):
    print(verdict.kind, verdict.outcome)
"""


def test_a_device(tree: TreeCopy, tmp_path: Path) -> None:
    text = tree.path("vta/devices/vtaq-tiny.json").read_text(encoding="utf-8")
    mine = tmp_path / "mine.json"
    mine.write_text(
        json.dumps({**json.loads(text), "name": "vtaq-mine", "LOG_INP_BUFF_SIZE": 11}),
        encoding="utf-8",
    )
    assert "vtaq-mine" in tree.says("loadstone", "devices", mine)
    assert "vtaq-mine" not in tree.says("loadstone", "devices")
    tree.write("vta/devices/vtaq-mine.json", mine.read_text(encoding="utf-8"))
    if ALL:
        assert tree.pytest("tests/vta/device/test_hw_config.py", "-k", "built_in").returncode == 1
    tree.edit(
        "tests/vta/device/test_hw_config.py",
        '        "vtaq-tiny",\n        "vtaq2-1x16x16",\n',
        '        "vtaq-mine",\n        "vtaq-tiny",\n        "vtaq2-1x16x16",\n',
    )
    # One by one: the folder's name is a word that -k finds, too.
    for file, words in (
        ("vta/device/test_hw_config.py", "built_in"),
        ("test_tables_in_c.py", "device"),
    ):
        done = tree.pytest(f"tests/{file}", "-k", words)
        assert done.returncode == 0, done.stdout
    assert "vtaq-mine" in tree.says("loadstone", "devices")
    assert tree.script(CONVOLUTIONS) == "conv2d taken\n"
    assert only_named(tree, "To add a device")


# --- an operator ----------------------------------------------------------------------------------
#: The larger of two tensors of one quantization: exact under every framework's rule.
DATACLASS = """

@dataclass(frozen=True, eq=False, kw_only=True)
class Maximum(Elementwise):
    \"\"\"The larger of both; all three tensors have one quantization.\"\"\"

    kind: ClassVar[str] = "maximum"
"""
MEANING = """def _maximum(o: g.Maximum, a: Array, b: Array) -> _Computed:
    return np.clip(np.maximum(a, b), o.low, o.high)


"""
EXTRACTOR = """

def maximum(reader: Reader, root: Call) -> Maximum:
    \"\"\"Raises Mismatch where the integers are not of one quantization.\"\"\"
    inner, low, high = reader.tail(root)
    output = reader.output(root)
    first, second = (_operand(reader, operand, output) for operand in reader.call(inner).args)
    if {first.quantization, second.quantization} != {output.quantization}:
        raise Mismatch("its quantizations differ")
    return Maximum(
        name=output.name,
        inputs=(first, second),
        outputs=(output,),
        low=low,
        high=high,
        rounding=reader.rounding,
    )
"""
RULE = """

def unsupported_maximum(op: g.Maximum, config: HwConfig) -> Refusal | None:
    \"\"\"Why the device cannot do this exactly; None if it can.\"\"\"
    if op.inputs[0].shape != op.inputs[1].shape or (op.low, op.high) != (-128, 127):
        return Refusal("a broadcast maximum, or a clamp behind it", "equal shapes, no clamp")
    return None


def maximum(op: g.Maximum, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    \"\"\"One ALU MAX.\"\"\"
    layout = Blocked(op.output.shape, config.batch, config.block)
    each = Input((True,), ())
    names = {"a": op.inputs[0].name, "b": op.inputs[1].name, "identity": IDENTITY}
    spec = ElementwiseSpec((layout.size_tiles,), (each, each), "max", ())
    return emit(spec, {**names, "out": op.output.name}, {}, op, config, request)
"""
CASE = """
def _maximum(rng: Rng) -> g.Graph:
    a = image(rng)
    b = g.Tensor("b", a.shape, "int8", a.quantization)
    y = g.Tensor("y", a.shape, "int8", a.quantization)
    levels: g.Fields = {"low": -128, "high": 127, "rounding": pick(rng, FRAMEWORKS)}
    return one(g.Maximum(name="y", inputs=(a, b), outputs=(y,), **levels))


#: Kind -> what makes a case of it. In"""
COMPILED = """
from pathlib import Path

import numpy as np
from loadstone.compiler import compile
from tests.tflite_builder import Graph, run

graph, shape = Graph(), (1, 5, 4, 6)
a, b = (graph.input(shape, np.int8, 0.1, -3) for _ in range(2))
y = graph.tensor(shape, np.int8, 0.1, -3)
graph.operator("MAXIMUM", [a, b], [y])
model = graph.save([y])
Path("max.tflite").write_bytes(model)
compiled = compile("max.tflite", "vtaq-tiny")
print(*((row["kind"], row["where"]) for row in compiled.explain()))
rng = np.random.default_rng(1)
samples = [rng.integers(-128, 128, shape).astype(np.int8) for _ in range(2)]
ours = compiled.run(*(x[None] for x in samples))[0][0]
print(np.array_equal(ours, run(model, samples)[0]))
"""


def test_an_operator(tree: TreeCopy) -> None:
    tree.append("graph/elementwise.py", DATACLASS)
    tree.edit("graph/elementwise.py", '    "Lookup",\n', '    "Lookup",\n    "Maximum",\n')
    for old in ("    Lookup,\n", '    "Lookup",\n'):
        tree.edit("graph/__init__.py", old, old + old.replace("Lookup", "Maximum"))
    if ALL:
        missing = tree.pytest("tests/test_tables.py", "-k", "operators or patterns or vta or draws")
        assert missing.returncode == 1
        for table in ("graph.reference._RULES", "artifact.host._MAKERS"):
            assert f"{table} lacks ['Maximum']" in missing.stdout
        for test in ("patterns_and_operators", "a_vta_takes", "conformance_draws"):
            assert re.search(rf"FAILED .*{test}", missing.stdout)
    tree.edit("graph/reference.py", "def _requantize(o", MEANING + "def _requantize(o")
    tree.edit("graph/reference.py", "    g.Mul: _mul,\n", "    g.Mul: _mul,\n    g.Maximum: _maximum,\n")  # fmt: skip # noqa: E501
    elementwise = "partition/patterns/elementwise.py"
    tree.append(elementwise, EXTRACTOR)
    tree.edit(elementwise, "    Lookup,\n", "    Lookup,\n    Maximum,\n")
    name = "partition/patterns/__init__.py"
    line = 'OperatorPattern("maximum", elementwise.binary_pattern("maximum"), elementwise.maximum),'
    tree.edit(name, '    OperatorPattern(\n        "average', f'    {line}\n    OperatorPattern(\n        "average')  # fmt: skip # noqa: E501
    tree.append("vta/operators/elementwise.py", RULE)
    rule = "    g.Maximum: _Rule(elementwise.maximum, elementwise.unsupported_maximum),\n"
    tree.edit("vta/operators/__init__.py", "    g.AveragePool2D: _Rule", rule + "    g.AveragePool2D: _Rule")  # fmt: skip # noqa: E501
    tree.edit("tests/test_tables.py", '"Dense", "Add", "Sub", "Mul", ', '"Dense", "Add", "Sub", "Mul", "Maximum", ')  # fmt: skip # noqa: E501
    tree.edit("tests/test_tables.py", '"Dequantize", "Host"', '"Dequantize", "Host", "Maximum"')
    tree.edit("conformance/cases.py", "\n#: Kind -> what makes a case of it. In", CASE)
    tree.edit("conformance/cases.py", '    "mul": _binary', '    "maximum": _maximum,\n    "mul": _binary')  # fmt: skip # noqa: E501
    tree.edit("conformance/onnx_case.py", '    g.Mul: _plain("Mul"),\n', '    g.Mul: _plain("Mul"),\n    g.Maximum: _plain("Max"),\n')  # fmt: skip # noqa: E501
    done = tree.pytest("tests/test_tables.py", "-k", "operators or patterns or vta or draws")
    assert done.returncode == 0, done.stdout
    assert tree.script(COMPILED) == "('maximum', 'vta')\nTrue\n"
    assert only_named(tree, "To add an operator")


# --- an instruction -------------------------------------------------------------------------------
COMPUTED = """
from dataclasses import replace
import numpy as np
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode
from loadstone.vta.isa.insn import Alu
from loadstone.vta.isa.spec import AluOp, Capability
from tests.programs import random_program
from tests.sample_model import dense_model
from tests.simulated import refer, simulate
from tests.validated import CONFIG, RQ, changed, replace as change

tiny = load_config("vtaq-tiny")
able = replace(tiny, name="able", capabilities=tiny.capabilities | Capability.ALU_XOR)
drawn = 0
for seed in range(60):
    program = random_program(able, np.random.default_rng(seed), 60)
    insns = [decode(bytes(row), able) for row in program.insns]
    drawn += sum(isinstance(i, Alu) and i.alu_op == AluOp.XOR for i in insns)
    assert np.array_equal(refer(program)[0], simulate(program)[0]), seed
print(drawn > 3)
able = replace(CONFIG, name="able", capabilities=CONFIG.capabilities | Capability.ALU_XOR)
print(changed(change(RQ, alu_op=AluOp.XOR)) == ("INSTRUCTION", RQ))
print(changed(change(RQ, alu_op=AluOp.XOR), dense_model(able).artifact))
"""


def add_xor(tree: TreeCopy) -> None:
    """An ALU operation with a capability of its own, step by step."""
    values = "vta/isa/values.py"
    tree.edit(values, "    RQ = 5\n", "    RQ = 5\n    XOR = 6\n")
    tree.edit(values, '6 and 7 are free."""\n\n    MIN', '7 is free."""\n\n    MIN')
    tree.edit(
        values, "    REGIONS = 1 << 5", "    ALU_XOR = 1 << 6  # ALU XOR\n    REGIONS = 1 << 5"
    )
    tree.edit(values, "AluOp.RQ: Capability", "AluOp.XOR: Capability.ALU_XOR, AluOp.RQ: Capability")
    tree.edit("vta/isa/asm_words.py", '    AluOp.RQ: "rq=",\n', '    AluOp.RQ: "rq=",\n    AluOp.XOR: "^=",\n')  # fmt: skip # noqa: E501
    tree.edit("vta/meaning/reference.py", "    AluOp.SHR: shift", "    AluOp.XOR: np.bitwise_xor,\n    AluOp.SHR: shift")  # fmt: skip # noqa: E501
    tree.edit("tests/vta/meaning/test_reference.py", "        AluOp.MUL: lambda", "        AluOp.XOR: lambda x, y: x ^ y,\n        AluOp.MUL: lambda")  # fmt: skip # noqa: E501
    tree.edit("hw_sim/lanes.inc", "  static I mul(I a", "  static I bitwise_xor(I a, I b) { return a ^ b; }\n  static I mul(I a")  # fmt: skip # noqa: E501
    line = (
        "return alu_steps<V, kVectors, Operations<V>::bitwise_xor>"
        "(loops, lanes, acc, use_imm, imm);"
    )
    tree.edit("hw_sim/lanes.inc", "    case LDS_ALU_MUL:", f"    case LDS_ALU_XOR:\n      {line}\n    case LDS_ALU_MUL:")  # fmt: skip # noqa: E501
    needs = (
        'if (a.alu_op == LDS_ALU_XOR && !g.has(LDS_CAP_ALU_XOR)) return "ALU XOR needs alu_xor";'
    )
    tree.edit("hw_sim/program.cc", "  if (a.alu_op == LDS_ALU_MUL", f"  {needs}\n  if (a.alu_op == LDS_ALU_MUL")  # fmt: skip # noqa: E501
    needs = "if (a->alu_op == LDS_ALU_XOR && !has(w, LDS_CAP_ALU_XOR)) return LDS_ERR_INSTRUCTION;"
    tree.edit("runtime/validate.c", "  if (a->alu_op == LDS_ALU_MUL", f"  {needs}\n  if (a->alu_op == LDS_ALU_MUL")  # fmt: skip # noqa: E501


@more
@pytest.mark.full
def test_an_instruction(tree: TreeCopy) -> None:
    """Not optimised, for the compiler's time: what is shown is that every place was found."""
    tree.edit("vta/isa/values.py", "    RQ = 5\n", "    RQ = 5\n    XOR = 6\n")
    stale = tree.run("tools.isa", "--check")
    assert stale.returncode == 1
    assert "lds_isa.h differs from the spec" in stale.stdout
    missing = tree.pytest(
        "tests/test_tables.py", "tests/test_tables_in_c.py", "-k", "enumerations or alu"
    )
    for table in ("isa.asm_words.ALU_SIGNS", "vta.meaning.reference._OPERATIONS"):
        assert f"{table} lacks ['XOR']" in missing.stdout
    assert re.search("FAILED .*alu_operation_is_named", missing.stdout)

    tree.edit("vta/isa/values.py", "    RQ = 5\n    XOR = 6\n", "    RQ = 5\n")
    add_xor(tree)
    tree.says("tools.isa")
    build(tree)
    done = tree.pytest(
        "tests/test_tables.py", "tests/test_tables_in_c.py", "-k", "enumerations or alu"
    )
    assert done.returncode == 0, done.stdout
    done = tree.pytest(
        "tests/vta/isa/test_asm.py",
        "tests/vta/meaning/test_reference.py",
        "-k",
        "text or alu_is_its_loop",
    )
    assert done.returncode == 0, done.stdout
    assert tree.script(COMPUTED) == "True\nTrue\n('OK', 0)\n"
    assert only_named(tree, "To add an instruction")


def build(tree: TreeCopy) -> None:
    tools = Path(sys.executable).parent
    cmake, ninja = (tools / name for name in ("cmake", "ninja"))
    if not cmake.is_file() or not ninja.is_file():
        pytest.skip("cmake and ninja are not installed beside Python: make lib brings them")
    out = tree.root / "build"
    kind = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_BUILD_TYPE=Debug")
    for words in (
        (cmake, "-S", tree.root, "-B", out, *kind, "-DLOADSTONE_IN_TREE=ON"),
        (cmake, "--build", out, "-j2"),
    ):
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
