# SPDX-License-Identifier: Apache-2.0
"""passes/table.py: the list names what there is; what compiles ran is in it, in its order; and
every pass in it ran in a compile of these tests."""

from __future__ import annotations

import importlib
import importlib.util
from functools import reduce
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.pipeline import Passes, with_copies
from loadstone.passes.log import PassLog, PassRun
from loadstone.passes.table import PASSES, STAGES, CompilerPass, pass_named
from loadstone.vta.passes.pipeline import PASSES as PROGRAM_PASSES
from tests.conftest import ROOT
from tests.float_models import images, small_onnx
from tests.ir_pass.test_from_tir import SUM, TABLE
from tests.passes.networks import TARGETS, plugins, residual_block

PACKAGE = ROOT / "python" / "loadstone"


def compiled(tmp_path: Path) -> dict[str, tuple[PassRun, ...]]:
    """The runs of four compiles: an int8 network for three targets, and a float one."""
    model = tmp_path / "block.tflite"
    model.write_bytes(residual_block())
    runs = {
        name: compile(model, target, None, plugins()).passes for name, target in TARGETS.items()
    }
    (tmp_path / "small.onnx").write_bytes(small_onnx())
    model, some = tmp_path / "small.onnx", {"host_cycles": 1}  # nothing costs so little
    runs["float"] = compile(model, "vtaq-tiny", samples=images(4), options=some).passes
    log = PassLog()  # as for a back end with passes of its own
    same = (lambda module: module,)
    with_copies(parsed(SUM), TABLE, Passes(same, same, same), log)
    runs["TensorIR"] = tuple(log.runs)
    return runs


def test_every_pass_runs_somewhere_and_in_the_order_of_the_list(tmp_path: Path) -> None:
    found = compiled(tmp_path)
    for name, runs in found.items():
        by_subject: dict[str, list[int]] = {}
        with_kernels = {run.subject for run in runs if run.name == "insert_dma_copy"}
        for run in runs:
            by_subject.setdefault(run.subject, []).append(run.entry.number)
            has_any = run.name != "operations" or run.subject in with_kernels
            assert run.verified == (bool(run.entry.verifier) and has_any), (name, run.name)
        for subject, numbers in by_subject.items():
            assert all(a < b for a, b in pairwise(numbers)), (name, subject, numbers)
    ran = {run.name for runs in found.values() for run in runs}
    assert ran == {entry.name for entry in PASSES}


def test_names_are_unique_and_stages_stand_together() -> None:
    names = [entry.name for entry in PASSES]
    assert len(set(names)) == len(names)
    stages = [entry.stage for entry in PASSES]
    assert list(STAGES) == [s for n, s in enumerate(stages) if n == 0 or stages[n - 1] != s]


def test_the_passes_of_a_program_are_those_of_its_pipeline() -> None:
    program = [entry for entry in PASSES if entry.stage == "program"]
    assert [entry.name for entry in program] == [step.name for step in PROGRAM_PASSES]
    for entry, step in zip(program, PROGRAM_PASSES, strict=True):
        assert entry.verifier == f"{step.__module__}.{step.__qualname__}.verify".partition(".")[2]


@pytest.mark.parametrize("entry", PASSES, ids=lambda entry: entry.name)
def test_modules_and_verifiers_exist(entry: CompilerPass) -> None:
    importlib.import_module(f"loadstone.{entry.module}")
    if not entry.verifier:
        return
    words = entry.verifier.split(".")
    depth = 1  # words of the module; what follows are names inside
    while importlib.util.find_spec(f"loadstone.{'.'.join(words[: depth + 1])}"):
        depth += 1
        if not (PACKAGE / "/".join(words[:depth])).is_dir():
            break
    module = importlib.import_module(f"loadstone.{'.'.join(words[:depth])}")
    assert callable(reduce(getattr, words[depth:], module))


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    assert pass_named("encode").file_name.endswith("-program-encode")
    with pytest.raises(ConfigError, match="pass incode: no such pass; did you mean encode"):
        pass_named("incode")
