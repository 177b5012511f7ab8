# SPDX-License-Identifier: Apache-2.0
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
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.artifact.host_step import HostOpcode
from loadstone.cli import COMMANDS
from loadstone.conformance.cases import OPERATORS as CASES
from loadstone.graph.kernels import onnx, tflite
from loadstone.partition.patterns import OPERATOR_PATTERNS, PLANE_PATTERNS, REAL_PATTERNS
from loadstone.vta import operators as vta_operators
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa import asm_parser
from loadstone.vta.isa.insn import CLASSES, Insn
from loadstone.vta.passes.pipeline import PASSES
from loadstone.vta.passes.program import ProgramPass
from loadstone.vta.region import patterns as vta_patterns
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
            *("ResizeBilinear", "Div", "SquaredDifference", "ReduceSum"),
            *("ReduceProduct", "L2Normalize", "LayerNorm", "BatchMatMul"),
            *("RealConv2D", "RealDense", "RealMatMul", "RealBinary", "RealClamp"),
            *("RealPool2D", "RealMean", "PlaneConv2D", "PlaneDense"),
        },
        "the C runtime has no kernel for it: artifact/c_kernels writes one, but for planes",
    ),
    "loadstone.artifact.c_kernels._WRITERS": (
        {
            *("Reshape", "Transpose", "Slice", "Pad", "Concatenate", "Requantize", "Lookup"),
            *("Quantize", "Dequantize", "Host"),
            *("RealConv2D", "RealDense", "RealMatMul", "RealBinary", "RealClamp"),
            *("RealPool2D", "RealMean", "PlaneConv2D", "PlaneDense"),
        },
        "the C runtime has its own kernel, or it is Relax",
    ),
    "loadstone.vta.meaning.lane_operations.OPERATIONS": (
        {"RQ"},
        "it reads three tiles: a function of its own",
    ),
    "loadstone.vta.meaning.lane_operations.FLOAT_OPERATIONS": (
        {"RQ", "SHR"},
        "they are of integers",
    ),
    "loadstone.artifact.host_operators._INT8": (
        {
            *("INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"),
            *("FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64", "BOOL"),
        },
        "the types of eight bits",
    ),
    "loadstone.partition.cost.hosts._MOVES": (
        set(HostOpcode.__members__) - {"PACK", "UNPACK", "COPY", "FILL", "LOOKUP", "GATHER"},
        "the others compute",
    ),
    "loadstone.vta.kernels.verify._STEPS": ({"RQ"}, "it is no ALU step of a nest"),
    "loadstone.commands.devices._PADS": (
        {"OUT", "ACC_8BIT", "WGT_4BIT", "WGT_PLANES"},
        "ways to store and load ACC, and to load WGT",
    ),
    "loadstone.search.assumptions._PADS": (
        {"ACC_8BIT", "WGT_4BIT", "WGT_PLANES"},
        "ways to load ACC and WGT",
    ),
    "loadstone.runtime.long_steps._ROWS": (
        {
            *("COPY", "EXTERNAL", "PACK", "UNPACK", "GATHER", "MATMUL_FLOAT32"),
            *(f"{name}_FLOAT32" for name in ("ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "POWER")),
            *("MAXIMUM_FLOAT32", "MINIMUM_FLOAT32"),
            *("RMS_NORM", "ROTATE_PLACES", "ROW_SCALES", "QUANTIZE_ROWS", "RESCALE_ROWS"),
            *("KEEP_ROWS", "ATTENTION", "GATE"),
        },
        "_CUT cuts copies, functions of two and products; the others are whole",
    ),
    "loadstone.conformance.onnx_case._NODES": (
        {
            *("ArgMax", "BatchMatMul", "Div", "Host", "L2Normalize", "LayerNorm", "Lookup", "Pad"),
            *("ReduceProduct", "ReduceSum", "ResizeBilinear", "ResizeNearest", "Slice", "Softmax"),
            *("SquaredDifference", "PlaneConv2D", "PlaneDense"),
            *("RealConv2D", "RealDense", "RealMatMul", "RealBinary", "RealClamp"),
            *("RealPool2D", "RealMean"),
        },
        "one operator of ONNX says no such thing: the case is stated in words",
    ),
    "loadstone.conformance.draw.FRAMEWORKS": ({"SINGLE"}, "no framework rounds so"),
    "loadstone.vta.kernels.copy_pieces.UNPADDED": (
        {"UOP", "INP", "OUT", "ACC_8BIT", "WGT_4BIT", "WGT_PLANES"},
        "the memories whose loads have no pads, of those that copies of nests name",
    ),
}


#: Tables that share all operators between them: a test below says so.
TOGETHER = (
    "loadstone.vta.operators._RULES",
    "loadstone.vta.region.patterns.NEVER",
    "loadstone.vta.operators._REAL_RULES",
)
#: What a back end makes of products of integers where their sums leave its device: no network has
#: such operators, and no host takes them.
PLANES = {g.PlaneConv2D, g.PlaneDense}
#: Operators on real numbers: a device of bfloat16 alone has them, and what it computes depends on
#: its blocks (tests/vta/operators/test_real.py).
REAL = {cls for cls in vars(g).values() if getattr(cls, "kind", "").startswith("real_")}


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
    assert {*PARTIAL, *TOGETHER} <= set(tables())
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
        if name not in TOGETHER
        if every - keys != PARTIAL.get(name, (set(), ""))[0]
    ]
    assert wrong == [], "\n".join(wrong)


def test_operators_have_a_kind_of_their_own_and_are_exported() -> None:
    kinds = [cls.kind for cls in OPERATORS.values()]
    assert len(set(kinds)) == len(kinds)
    assert set(OPERATORS) <= set(g.__all__)


def test_patterns_and_operators_name_each_other() -> None:
    """An operator says by which patterns it is read; a pattern, in the type of its extractor, what
    it reads as."""
    told = {name for cls in OPERATORS.values() for name in cls.patterns}
    moves = {"real_reshape", "real_concatenate"}  # of operators that integers have, too
    read = (*OPERATOR_PATTERNS, *PLANE_PATTERNS, *REAL_PATTERNS)
    assert told | moves == {entry.name for entry in read}
    assert sorted(set(vta_operators.REAL_TAKEN_PATTERNS)) == sorted(
        {entry.name for entry in REAL_PATTERNS}
    )
    for entry in (entry for entry in read if entry.name not in moves):
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
    taken, never = set(vta_operators._RULES), set(vta_patterns.NEVER)
    assert taken | never == set(OPERATORS.values()) - REAL - {g.Host}
    assert not taken & never
    assert set(vta_operators._REAL_RULES) == REAL | {g.Reshape, g.Concatenate}
    offered = [pattern.name for pattern in vta_patterns.patterns(load_config("vtaq-tiny"))]
    order = [entry.name for entry in OPERATOR_PATTERNS]
    planes = {entry.name for entry in PLANE_PATTERNS}
    assert sorted(offered) == sorted({*order, *planes})
    assert max(map(offered.index, planes)) < offered.index("concatenate")  # which they end in
    places = [order.index(name) for name in vta_operators.TAKEN_PATTERNS if name not in planes]
    assert all(a < b for a, b in pairwise(places)), "longer patterns must be tried first"


def test_conformance_draws_every_operator() -> None:
    drawn: set[type[g.Operator]] = set()
    for name, make in CASES.items():
        for seed in range(8):
            drawn.update(type(o) for o in make(np.random.default_rng(seed)).operators)
            assert name in CASES
    assert drawn == set(OPERATORS.values()) - REAL - PLANES - {g.Host}


def test_both_frameworks_have_every_rule_that_the_reference_asks_for() -> None:
    text = (PACKAGE / "graph/reference.py").read_text(encoding="utf-8")
    rules = set(re.findall(r"_rules\(o\)\.(\w+)\(", text))
    assert len(rules) > 8
    for name in rules:
        assert callable(getattr(onnx, name, None)), f"graph/kernels/onnx has no {name}"
        assert callable(getattr(tflite, name, None)), f"graph/kernels/tflite has no {name}"


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


def test_external_functions_are_those_that_artifacts_name() -> None:
    """What is compiled from C (runtime/c_step.py) has no entry: its source is in the artifact."""
    from loadstone.artifact import host_step
    from loadstone.runtime.externals import EXTERNALS

    named = {value for name, value in vars(host_step).items() if name.startswith("EXTERNAL_")}
    assert named - {host_step.EXTERNAL_C} == set(EXTERNALS)


def test_every_command_is_a_module_and_every_module_a_command() -> None:
    """What several commands share has no `configure`."""
    files = {path.stem for path in (PACKAGE / "commands").glob("*.py")} - {"__init__"}
    assert set(COMMANDS) <= files
    for name in files - set(COMMANDS):
        assert not hasattr(importlib.import_module(f"loadstone.commands.{name}"), "configure"), name
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
