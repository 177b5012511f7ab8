"""Every table of operators, instructions, passes, devices and commands names all that there is, and
nothing else.

A table that is keyed by operators of graph/ or by the members of an enumeration is found by looking
through every module of the package: a new operator, opcode or memory fails here until each of them
has a line for it, or PARTIAL says what is left out and why. Tables keyed by words are listed one by
one, with what their words must be.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.cli import COMMANDS
from loadstone.commands import export
from loadstone.conformance.cases import OPERATORS as CASES
from loadstone.graph.kernels import onnx, tflite
from loadstone.partition.patterns import OPERATOR_PATTERNS
from loadstone.vta import operators as vta_operators
from loadstone.vta import patterns as vta_patterns
from loadstone.vta.hw_config import device_names, load_config
from loadstone.vta.isa import asm_parser, registers
from loadstone.vta.isa.insn import CLASSES, Insn
from loadstone.vta.pipeline import PASSES
from loadstone.vta.program import ProgramPass
from loadstone.vta.timing_tables import builtin_timing, table_names
from tests.conftest import ROOT
from tests.measure import imports_of, modules, tree_of
from tests.test_layers import WITHOUT_TVM, matching

PACKAGE = ROOT / "python" / "loadstone"

#: Tables that leave something out: what, by name, and why.
PARTIAL: dict[str, tuple[Set[str], str]] = {
    "loadstone.graph.reference._RULES": ({"Host"}, "a Relax function says itself what it means"),
    "loadstone.artifact.host._MAKERS": (
        {
            *("Conv2D", "Dense", "Add", "Sub", "Mul", "AveragePool2D", "MaxPool2D", "Mean"),
            *("ResizeBilinear", "Host", "Div", "SquaredDifference", "ReduceSum"),
            *("ReduceProduct", "L2Normalize", "BatchMatMul"),
        },
        "the C runtime has no kernel for it: on the host Python runs it (runtime/externals.py)",
    ),
    "loadstone.vta.operators._RULES": (
        {
            *("Softmax", "ArgMax", "Quantize", "Dequantize", "Transpose", "Lookup", "Host"),
            *("Div", "SquaredDifference", "ReduceSum", "ReduceProduct", "L2Normalize"),
            "BatchMatMul",
        },
        "no VTA runs it: vta/patterns.py says why",
    ),
    "loadstone.vta.patterns._NEVER": (
        {
            *("Conv2D", "Dense", "Add", "Sub", "Mul", "AveragePool2D", "MaxPool2D", "Mean"),
            *("Concatenate", "Slice", "Pad", "Reshape", "ResizeNearest", "ResizeBilinear"),
            *("Requantize", "Host"),
        },
        "some VTA runs it: vta/operators says how",
    ),
    "loadstone.vta.reference._OPERATIONS": ({"RQ"}, "it reads three tiles: a function of its own"),
    "loadstone.vta.stream_text._SIGNS": ({"RQ"}, "an operation of its own: RequantizeNest"),
    "loadstone.artifact.host_operators._INT8": (
        {"INT16", "INT32", "INT64", "FLOAT32", "FLOAT16", "BOOL"},
        "the types of eight bits",
    ),
    "loadstone.conformance.draw.FRAMEWORKS": ({"SINGLE"}, "no framework rounds so"),
    "loadstone.vta.emitter._UNPADDED": (
        {"UOP", "INP", "OUT", "ACC_8BIT"},
        "the memories whose loads have no pads",
    ),
}


def named(cls: type[g.Operator]) -> Iterator[type[g.Operator]]:
    """The operators of graph/: every subclass with a kind of its own."""
    for sub in cls.__subclasses__():
        if sub.__module__.startswith("loadstone.graph"):
            if "kind" in vars(sub):
                yield sub
            yield from named(sub)


OPERATORS = {cls.__name__: cls for cls in named(g.Operator)}


@cache
def tables() -> dict[str, tuple[set[str], set[str]]]:
    """`module.NAME` -> (the keys of a table, all that its keys could be).

    For every table at the top of a module whose keys are operators or members of one enumeration.
    """
    found = {}
    for module in modules():
        if module.endswith(("__main__", ".test_backend")):
            continue
        try:
            values = vars(importlib.import_module(module))
        except ModuleNotFoundError as error:  # an extra that is not installed
            if str(error.name).split(".")[0] in ("torch", "torchao"):
                continue
            raise
        for name in assigned(tree_of(module)):
            sides = sides_of(values.get(name))
            if sides is not None:
                found[f"{module}.{name}"] = sides
    return found


def assigned(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def sides_of(table: Any) -> tuple[set[str], set[str]] | None:
    if not isinstance(table, Mapping | tuple | list | Set) or not table:
        return None
    keys = list(table)
    if all(isinstance(key, Enum) for key in keys) and len({type(key) for key in keys}) == 1:
        return {key.name for key in keys}, {member.name for member in type(keys[0])}
    if all(isinstance(key, type) and issubclass(key, g.Operator) for key in keys):
        return {key.__name__ for key in keys}, set(OPERATORS)
    return None


def test_tables_are_found_by_themselves() -> None:
    assert set(PARTIAL) <= set(tables())
    assert tables()["loadstone.vta.isa.values.STAGE_REGISTERS"][0] == {"LOAD", "COMPUTE", "STORE"}
    assert len(tables()) > 15
    assert sides_of({"a": 1}) is None
    assert sides_of({g.Conv2D: 1}) == ({"Conv2D"}, set(OPERATORS))


def test_every_table_of_operators_and_enumerations_is_complete() -> None:
    """One that leaves out more, or less, than PARTIAL says fails."""
    wrong = [
        f"{name} lacks {sorted(every - keys - PARTIAL.get(name, (set(), ''))[0])}, "
        f"has nevertheless {sorted(keys & PARTIAL.get(name, (set(), ''))[0])}"
        for name, (keys, every) in tables().items()
        if every - keys != PARTIAL.get(name, (set(), ""))[0]
    ]
    assert wrong == [], "\n".join(wrong)


# --- operators ------------------------------------------------------------------------------------
def test_operators_have_a_kind_of_their_own_and_are_exported() -> None:
    kinds = [cls.kind for cls in OPERATORS.values()]
    assert len(set(kinds)) == len(kinds)
    assert set(OPERATORS) <= set(g.__all__)


def test_patterns_and_operators_name_each_other() -> None:
    """An operator says by which patterns it is read; a pattern, in the type of its extractor, what
    it reads as."""
    told = {name for cls in OPERATORS.values() for name in cls.patterns}
    assert told == {entry.name for entry in OPERATOR_PATTERNS}
    for entry in OPERATOR_PATTERNS:
        reads_as = extracted(entry.extract)
        claims = {cls for cls in OPERATORS.values() if entry.name in cls.patterns}
        assert claims, entry.name
        assert claims <= reads_as, f"{entry.name} reads as {reads_as}, not as {claims}"
        assert claims == reads_as or reads_as == {
            c for c in OPERATORS.values() if issubclass(c, g.Elementwise)
        }, entry.name


def extracted(extract: Any) -> set[type[g.Operator]]:
    # Types of Relax, in the parameters, exist for the type checker alone.
    names = {**vars(importlib.import_module(extract.__module__)), "Call": object, "Expr": object}
    result = get_type_hints(extract, names)["return"]
    wide = get_args(result) or (result,)
    return {cls for cls in OPERATORS.values() if issubclass(cls, wide)}


def test_a_vta_takes_an_operator_or_says_that_no_vta_can() -> None:
    taken, never = set(vta_operators._RULES), set(vta_patterns._NEVER)
    assert taken | never == set(OPERATORS.values()) - {g.Host}
    assert not taken & never
    offered = [pattern.name for pattern in vta_patterns.patterns(load_config("vtaq-tiny"))]
    assert sorted(offered) == sorted({entry.name for entry in OPERATOR_PATTERNS})
    order = [entry.name for entry in OPERATOR_PATTERNS]
    places = [order.index(name) for name in vta_operators.TAKEN_PATTERNS]
    assert all(a < b for a, b in pairwise(places)), "longer patterns must be tried first"


def test_conformance_draws_every_operator() -> None:
    drawn: set[type[g.Operator]] = set()
    for name, make in CASES.items():
        for seed in range(8):
            drawn.update(type(o) for o in make(np.random.default_rng(seed)).operators)
            assert name in CASES
    assert drawn == set(OPERATORS.values()) - {g.Host}


def test_both_frameworks_have_every_rule_that_the_reference_asks_for() -> None:
    text = (PACKAGE / "graph/reference.py").read_text(encoding="utf-8")
    rules = set(re.findall(r"_rules\(o\)\.(\w+)\(", text))
    assert len(rules) > 8
    for name in rules:
        assert callable(getattr(onnx, name, None)), f"graph/kernels/onnx has no {name}"
        assert callable(getattr(tflite, name, None)), f"graph/kernels/tflite has no {name}"


# --- words of other libraries ---------------------------------------------------------------------
#: Tables of Relax operators, of TFLite's and of ONNX's: each word must exist there.
RELAX = (
    *("frontend.canonical.MOVES", "frontend.canonical.CLAMPS", "frontend.layout.WINDOWS"),
    *("frontend.layout.UNARY", "frontend.layout.BINARY", "quantization.read_network._COMPUTED"),
    *("quantization.read_network._MOVED", "quantization.read_network._ELEMENTWISE"),
    *("quantization.read_network._REDUCING", "quantization.plan._MEANS"),
    *("quantization.fold.WEIGHTED", "quantization.fold.RESHAPES", "quantization.fold.AFFINE"),
    *("quantization.export_onnx._TABLE", "quantization.export_onnx._SIMPLE"),
    *("quantization.simulate._ORDER", "partition.patterns.elementwise._BINARY"),
)
TFLITE = (
    *("COPIES", "ONE_QUANTIZATION", "COMPUTED", "COMPUTED_INT8", "COMPUTED_UINT8", "SCALELESS"),
    *("OPERANDS", "TYPE_CHANGING", "PRODUCTS", "RATIOS", "STEPS", "BY_TYPE"),
)
ONNX = ("frontend.qoperator._TABLE", "frontend.qoperator._INTEGER_MOVES", "frontend.onnx.DYNAMIC")
#: What onnxruntime alone defines, in its domain com.microsoft.
MICROSOFT = re.compile(r"QLinear\w+|QGemm|DynamicQuantize\w+|MatMulIntegerToFloat")


def words_of(place: str) -> list[str]:
    module, _, name = place.rpartition(".")
    return list(getattr(importlib.import_module(f"loadstone.{module}"), name))


@pytest.mark.parametrize("place", RELAX)
def test_words_of_relax_are_operators_of_relax(place: str) -> None:
    from loadstone.relax.compat import tvm

    known = set(tvm.ir.Op.list_op_names())
    assert [word for word in words_of(place) if f"relax.{word}" not in known] == []


@pytest.mark.parametrize("name", TFLITE)
def test_words_of_tflite_are_operators_of_tflite(name: str) -> None:
    import tflite as schema

    unknown = [
        word
        for word in words_of(f"frontend.tflite_kernels.{name}")
        if not isinstance(getattr(schema.BuiltinOperator, word, None), int)
    ]
    assert unknown == []


def test_a_tflite_kernel_has_one_rule_of_requantization() -> None:
    """The tables that say which bytes a kernel copies and which it computes do not overlap."""
    names = ("COPIES", "ONE_QUANTIZATION", "COMPUTED", "COMPUTED_INT8", "COMPUTED_UINT8")
    every = [word for name in names for word in words_of(f"frontend.tflite_kernels.{name}")]
    assert len(every) == len(set(every))
    names = ("COMPUTED", "COMPUTED_INT8", "COMPUTED_UINT8")
    computed = {word for name in names for word in words_of(f"frontend.tflite_kernels.{name}")}
    for name in ("OPERANDS", "TYPE_CHANGING", "PRODUCTS", "RATIOS", "STEPS"):
        assert set(words_of(f"frontend.tflite_kernels.{name}")) <= computed, name


@pytest.mark.parametrize("place", ONNX)
def test_words_of_onnx_are_operators_of_onnx(place: str) -> None:
    import onnx.defs

    unknown = [
        word
        for word in words_of(place)
        if not onnx.defs.has(word) and not MICROSOFT.fullmatch(word)
    ]
    assert unknown == []


# --- instructions, registers, passes --------------------------------------------------------------
def test_every_instruction_class_is_in_the_table_and_reads_as_text() -> None:
    assert set(CLASSES.values()) == set(with_spec(Insn))
    mnemonics = {cls.SPEC.name.lower() for cls in CLASSES.values()}
    assert set(asm_parser._PARSERS) == mnemonics | {"nop"}


def with_spec(cls: type[Insn]) -> Iterator[type[Insn]]:
    for sub in cls.__subclasses__():
        if "SPEC" in vars(sub):
            yield sub
        yield from with_spec(sub)


def test_every_pass_of_programs_is_in_the_pipeline_and_on_its_page() -> None:
    assert set(PASSES) == {
        cls for cls in ProgramPass.__subclasses__() if cls.__module__.startswith("loadstone.")
    }
    names = [cls.name for cls in PASSES]
    assert len(set(names)) == len(names)
    tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for cls in PASSES:
        assert f"**{cls.__name__}**" in tutorial, f"docs/tutorial.md is silent on {cls.__name__}"
        assert cls.verify is not ProgramPass.verify, f"{cls.__name__} has no verifier"


def test_register_blocks_are_known_everywhere_they_are_chosen() -> None:
    from loadstone.simulator import simd
    from loadstone.vta import hw_config

    blocks = set(registers.BLOCKS)
    names = {name if name == "native" else f"vta-{name}" for name in blocks}
    for table in (
        hw_config._REGISTER_BLOCKS,
        simd._PAGE_BYTES,
        export._REGISTERS,
        export._REGISTER_FILES,
    ):
        assert set(table) == names
    for name, (_, size) in hw_config._REGISTER_BLOCKS.items():
        assert simd._PAGE_BYTES[name] == size
        assert (ROOT / "driver" / export._REGISTER_FILES[name]).is_file()


def test_external_kernels_are_those_that_artifacts_name() -> None:
    from loadstone.artifact import host
    from loadstone.runtime.externals import EXTERNALS

    assert set(EXTERNALS) == {
        value for name, value in vars(host).items() if name.startswith("EXTERNAL_")
    }


# --- the same words in C --------------------------------------------------------------------------
def c_names(file: str, prefix: str) -> list[str]:
    """Names of a C file that begin with a prefix, without it, in their order."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(rf"\b{prefix}(\w+)", text)))


def c_values(file: str, prefix: str) -> dict[str, int]:
    """Enumerators and their values, where the file writes them."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return {name: int(value) for name, value in re.findall(rf"\b{prefix}(\w+) = (-?\d+)", text)}


def test_host_operators_have_their_opcodes_in_c() -> None:
    from loadstone.artifact.host_operators import HostOpcode

    steps = c_names("runtime/format.h", "LDS_STEP_")
    assert steps[0] == "DEVICE"
    assert steps[1:] == [opcode.name for opcode in HostOpcode]
    assert [opcode.value for opcode in HostOpcode] == [*range(1, len(HostOpcode)), 255]
    rules = c_names("runtime/steps.c", "LDS_STEP_")
    assert set(rules) | {"ARGMAX"} == set(steps)  # the last of its switch


def test_host_operators_have_their_line_in_the_format() -> None:
    """Number, name, tensors and parameters: FORMAT.md, and what the reader checks."""
    from loadstone.artifact.host_operators import OPERATORS as SPECS

    page = (ROOT / "runtime/FORMAT.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) (\w+) \| (.*?) ?-> (.*?) \| (.*?) \|", page, re.MULTILINE)
    told = {
        (int(number), name): (sources.count(",") + bool(sources), parameters_of(parameters))
        for number, name, sources, _, parameters in rows
        if name != "external"  # any number of tensors; two strings
    }
    assert told == {
        (opcode.value, opcode.name.lower()): (spec.inputs, spec.parameters)
        for opcode, spec in SPECS.items()
        if opcode.name != "EXTERNAL"
    }


def parameters_of(cell: str) -> tuple[str, ...]:
    """`extent[6]` stands for extent_0 to extent_5; a range or a note may follow a name."""
    names: list[str] = []
    for name, count in re.findall(r"(?:^|, )([a-z_]+)(?:\[(\d)\])?", cell):
        names += [f"{name}_{k}" for k in range(int(count))] if count else [name]
    return tuple(names)


def test_statuses_of_the_validators_are_c_s() -> None:
    from loadstone.vta.validate import _RULES, STATUS

    statuses = c_values("runtime/include/loadstone.h", "LDS_ERR_")
    assert {name: value for name, value in statuses.items() if -30 < value <= -20} == STATUS
    assert set(_RULES.values()) <= set(STATUS)
    page = (ROOT / "runtime/VALIDATION.md").read_text(encoding="utf-8")
    stated = set(re.findall(r"^\|? ?\**(V\d+)\b", page, re.MULTILINE))
    assert set(_RULES) | {"V0"} == stated  # V0: that the device is the program's


def test_faults_of_the_simulator_are_c_s() -> None:
    from loadstone.simulator.simd import FAULTS

    names = c_values("hw_sim/include/lds_simdev.h", "LDS_FAULT_")
    assert names == {
        "NONE": 0,
        **{name.replace("-", "_").upper(): k for k, name in enumerate(FAULTS, start=1)},
    }


def test_kernels_of_the_simulator_are_c_s() -> None:
    from loadstone.simulator.sim import KERNELS

    names = [name.lower() for name in c_names("hw_sim/include/lds_sim.h", "LDS_SIM_KERNELS_")]
    assert names == list(KERNELS)


#: What the simulator and the validator do with each opcode stands in a switch over the names of
#: lds_isa.h. FINISH is the default in those that it is left out of.
SWITCHES = {
    "hw_sim/run.cc": {"FINISH"},
    "hw_sim/program.cc": {"FINISH"},
    "hw_sim/timing.cc": set(),
    "runtime/validate.c": set(),
}


@pytest.mark.parametrize("file", SWITCHES)
def test_every_opcode_is_named_where_c_acts_on_it(file: str) -> None:
    named = set(c_names(file, "LDS_OPCODE_"))
    assert named | SWITCHES[file] == {opcode.name for opcode in CLASSES}


def test_every_alu_operation_is_named_where_the_simulator_computes_it() -> None:
    from loadstone.vta.isa.spec import AluOp

    lanes = set(c_names("hw_sim/lanes.inc", "LDS_ALU_"))
    assert lanes == {op.name for op in AluOp} - {"RQ"}  # RQ: a function of its own
    assert "RQ" in c_names("hw_sim/exec_compute.cc", "LDS_ALU_")


# --- devices, boards, commands --------------------------------------------------------------------
def test_every_device_has_a_timing_table_and_every_table_a_device() -> None:
    constants = c_names("hw_sim/constants.h", r"X\(")
    used: set[str] = set()
    for name in device_names():
        text = (PACKAGE / f"vta/devices/{name}.json").read_text(encoding="utf-8")
        used |= {table for table in table_names() if f'"{table}"' in text}
        assert set(load_config(name).timing) == set(constants), name
    assert used | bases(table_names()) == set(table_names())
    for table in table_names():
        assert set(builtin_timing(table)) == set(constants)


def bases(names: list[str]) -> set[str]:
    texts = [(PACKAGE / f"vta/devices/timing/{n}.json").read_text(encoding="utf-8") for n in names]
    return {base for text in texts for base in re.findall(r'"base": "([\w-]+)"', text)}


def test_every_timing_constant_is_explained() -> None:
    page = (ROOT / "docs/timing.md").read_text(encoding="utf-8")
    assert [c for c in c_names("hw_sim/constants.h", r"X\(") if c not in page] == []


def test_every_board_has_its_folder_and_files() -> None:
    folders = {path.name for path in (PACKAGE / "boards").iterdir() if (path / "main.c").is_file()}
    assert set(export.BOARDS) == folders
    for board, files in export.BOARDS.items():
        missing = [file for file in files if not (ROOT / "driver" / file).is_file()]
        assert missing == [], board


def test_every_command_is_a_module_and_every_module_a_command() -> None:
    """plugin_options.py holds what several commands share."""
    files = {path.stem for path in (PACKAGE / "commands").glob("*.py")} - {"__init__"}
    assert files - {"plugin_options"} == set(COMMANDS)
    for name in COMMANDS:
        module = importlib.import_module(f"loadstone.commands.{name}")
        assert callable(module.configure), name
        assert callable(module.run), name


def test_a_command_that_needs_no_tvm_is_held_to_it() -> None:
    """It needs none where no import leads there, those inside functions counted."""
    held = set(matching(WITHOUT_TVM))
    free = {
        f"loadstone.commands.{name}"
        for name in COMMANDS
        if "loadstone.relax.compat" not in reached_lazily(f"loadstone.commands.{name}")
    }
    assert free <= held, f"add to WITHOUT_TVM of tests/test_layers.py: {sorted(free - held)}"


def reached_lazily(module: str) -> set[str]:
    seen, todo = {module}, [module]
    while todo:
        new = imports_of(todo.pop()) - seen
        seen |= new
        todo += new
    return seen


def test_paths_of_this_test_exist() -> None:
    assert all(Path(ROOT / file).is_file() for file in SWITCHES)
