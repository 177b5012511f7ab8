# SPDX-License-Identifier: Apache-2.0
"""prove/proof.py on a program of five instructions: what is compared, what is said of what differs,
and how many proofs are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    HostStep,
    ProgramStep,
    RegionKind,
)
from loadstone.artifact.host_operators import COPY_PARAMETERS
from loadstone.artifact.host_step import HostOpcode
from loadstone.prove import proof as proof_module
from loadstone.prove.machine import SymbolMachine
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.proof import Proof
from loadstone.prove.verdict import ProofVerdict, Status
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Insn
from loadstone.vta.isa.spec import AluOp
from tests.sample_model import copy_model

CONFIG = load_config("vtaq-1x16x16")
EVERY = np.arange(-128, 128)
NEXT, OTHER = np.minimum(EVERY, 5), np.maximum(EVERY, -5)
LOAD, ALU, STORE, FINISH = range(1, 5)


def network(kind: str = "reshape", elements: int = 16, **said: Any) -> ModelNetwork:
    """One operator between x and y."""
    x, y = (ModelTensor(name, (1, elements), "int8", (0.5,), (3,)) for name in "xy")
    operator = ModelOperator(kind, (0,), (1,), said, f"the {kind}")
    return ModelNetwork("net", (x, y), (operator,), (0,), (1,))


def changed(artifact: Artifact, number: int, **fields: int) -> Artifact:
    """The artifact with other fields of an instruction."""
    (step,) = artifact.steps
    assert isinstance(step, ProgramStep)
    stream: list[Insn] = list(decode_stream(step.instructions, CONFIG))
    stream[number] = stream[number].changed(**fields)
    code = encode_stream(stream, CONFIG).tobytes()
    return replace(artifact, steps=(replace(step, instructions=code),))


def least(number: int) -> Artifact:
    """y is the smaller one of x and a number."""
    return changed(copy_model(), ALU, alu_op=AluOp.MIN, imm=number)


def said(network: ModelNetwork, artifact: Artifact, tolerance: int = 0) -> ProofVerdict:
    return Proof(network, tolerance).of(artifact)


def test_what_is_counted() -> None:
    verdict = said(network(), copy_model())
    assert (verdict.status, verdict.reason) == (Status.PROVED, "")
    assert (verdict.operators, verdict.steps, verdict.symbols) == (1, 1, 16)
    assert (sum(verdict.equalities.values()), len(verdict.equalities)) == (0, 3)
    assert verdict.tolerance == 0
    (step,) = copy_model().steps
    twice = said(network(), replace(copy_model(), steps=(step, step)))
    assert (twice.status, twice.steps) == (Status.PROVED, 2)
    clamped = least(5)
    verdict = said(network("table", table=NEXT), clamped)
    assert (verdict.status, sum(verdict.equalities.values())) == (Status.PROVED, 1)
    assert verdict.equalities["on every value"] == 1


@pytest.mark.parametrize("looked_for", [0, 1, 2, 1 << 10, 3 << 20])
@pytest.mark.parametrize("degree", [1, 2])
def test_the_bound_counts_pairs_of_sums(looked_for: int, degree: int) -> None:
    """Half of n^2 pairs, each with 2^-128, of products 2^-124."""
    proof = Proof(network())
    proof.values.looked_for, proof.values.degree = looked_for, degree
    bound = 2.0 ** -proof._error_bits()
    pairs = max(looked_for, 1) ** 2 / 2
    each = {1: 128, 2: 124}[degree]
    assert pairs * 2.0**-each <= bound < 2 * pairs * 2.0**-each * 1.001
    assert proof.of(copy_model()).error_bits <= proof._error_bits()


def test_one_level_off_is_said() -> None:
    artifact = least(5)
    exact = said(network("table", table=EVERY), artifact)
    assert (exact.status, exact.tolerance) == (Status.NOT_PROVED, 0)
    default = Proof(network("table", table=np.minimum(EVERY, 6))).of(artifact)
    attempted = Proof.attempt(network("table", table=np.minimum(EVERY, 6)), artifact)
    for one in (default, attempted):
        assert (one.status, one.tolerance) == (Status.NOT_PROVED, 0)
    near = said(network("table", table=np.minimum(EVERY, 6)), artifact, 1)
    assert (near.status, near.tolerance) == (Status.PROVED, 1)
    assert near.equalities["and differ by a level"] == 1


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_other_ends_are_not_proved(side: str) -> None:
    """Of another number, of another size, of another type."""
    ends = {"inputs": (0, 0), "outputs": (1, 1)}[side]
    more = said(replace(network(), **{side: ends}), copy_model())
    assert more.status is Status.NOT_PROVED
    assert f"the artifact has {side} of [16] elements, the network of [16, 16]" in more.reason
    number = ends[0]
    tensors = list(copy_model().tensors)
    tensors[number] = replace(tensors[number], dtype=DataType.UINT8)
    other = said(network(), replace(copy_model(), tensors=tuple(tensors)))
    assert other.status is Status.NOT_PROVED
    name = tensors[number].name
    assert f"the artifact has {name} of uint8, the network of int8" in other.reason
    tensors[number] = replace(copy_model().tensors[number], shape=(1, 8))
    less = said(network(), replace(copy_model(), tensors=tuple(tensors)))
    assert less.status is Status.NOT_PROVED
    assert f"the artifact has {side} of [8] elements, the network of [16]" in less.reason


def test_the_first_element_that_differs_is_named() -> None:
    tables = np.stack([EVERY if channel in (0, 1, 2, 6) else NEXT for channel in range(16)])
    verdict = said(network("channel_table", table=tables, axis=1), copy_model())
    assert verdict.status is Status.NOT_PROVED
    assert verdict.reason == (
        "output y: 12 of 16 elements, the first 3. First at the channel_table, element 3, one of "
        "12 that are missing: no byte that was stored is of its sum"
    )


def test_an_element_of_which_another_function_was_stored_is_named_before() -> None:
    """Of a later operator, too: the first one is missing because of it, or is none that a device
    stores."""
    x, y, z = (ModelTensor(name, (1, 16), "int8", (0.5,), (3,)) for name in "xyz")
    first = ModelOperator("table", (0,), (1,), {"table": NEXT}, "the first")
    second = ModelOperator("table", (0,), (2,), {"table": OTHER}, "the second")
    both = ModelNetwork("net", (x, y, z), (first, second), (0,), (2,))
    verdict = said(both, least(9))
    assert verdict.status is Status.NOT_PROVED
    assert "First at the first, element 0, one of 16 that are missing: for sum" in verdict.reason
    right = said(both, least(5))
    assert right.status is Status.NOT_PROVED
    assert "First at the second, element 0, one of 16 that are missing: " in right.reason


def test_an_element_that_nobody_stores_need_not_be_stored() -> None:
    """No output is made of it."""
    x, y, z = (ModelTensor(name, (1, 16), "int8", (0.5,), (3,)) for name in "xyz")
    first = ModelOperator("table", (0,), (1,), {"table": np.minimum(EVERY, 9)}, "the first")
    second = ModelOperator("table", (0,), (2,), {"table": NEXT}, "the second")
    both = ModelNetwork("net", (x, y, z), (first, second), (0,), (2,))
    verdict = said(both, least(5))
    assert (verdict.status, verdict.reason) == (Status.PROVED, "")


def test_what_the_host_computes_is_stored() -> None:
    """The first operator by a table of the host; the output is the second one's."""
    artifact = copy_model()
    table = NEXT.astype(np.int8).view(np.uint8)
    data = np.roll(table, 128).tobytes()  # in the order of the byte as uint8
    constants = replace(artifact.regions[0], data=data, size_bytes=256)
    step = HostStep("table", HostOpcode.LOOKUP, (0, 2), (1,), {})
    held = BufferView("table", (256,), DataType.INT8, 0, 0, 0.5, 3)
    artifact = replace(
        artifact,
        regions=(constants, *artifact.regions[1:]),
        tensors=(*artifact.tensors, held),
        steps=(step,),
    )
    assert said(network("table", table=NEXT), artifact).status is Status.PROVED
    x, y, z = (ModelTensor(name, (1, 16), "int8", (0.5,), (3,)) for name in "xyz")
    first = ModelOperator("table", (0,), (1,), {"table": NEXT}, "the first")
    second = ModelOperator("table", (0,), (2,), {"table": OTHER}, "the second")
    verdict = said(ModelNetwork("net", (x, y, z), (first, second), (0,), (2,)), artifact)
    assert "First at the second, element 0, one of 16 that are missing: " in verdict.reason


def test_all_bytes_of_an_element_must_be_equal() -> None:
    """Of float32: y is x with one byte of the third element from another one."""
    x, y = (ModelTensor(name, (1, 4), "float32") for name in "xy")
    real = ModelNetwork(
        "net", (x, y), (ModelOperator("reshape", (0,), (1,), {}, "it"),), (0,), (1,)
    )
    artifact = copy_model()
    tensors = tuple(replace(t, dtype=DataType.FLOAT32, shape=(1, 4)) for t in artifact.tensors)
    artifact = replace(artifact, tensors=tensors)
    one = tuple(BufferView(f"byte {k}", (1, 1), DataType.INT8, 1 + k, 9) for k in (0, 1))
    numbers = dict.fromkeys(COPY_PARAMETERS, 0) | {f"extent_{k}": 1 for k in range(6)}
    bytes_ = tuple(BufferView(f"{k}", (1, 16), DataType.INT8, 1 + k, 0) for k in (0, 1))
    whole = HostStep("all", HostOpcode.COPY, (2,), (3,), numbers | {
        "extent_0": 16, "in_stride_0": 1, "out_stride_0": 1})  # fmt: skip
    artifact = replace(artifact, tensors=(*tensors, *bytes_, *one), steps=(whole,))
    assert said(real, artifact).status is Status.PROVED
    wrong = HostStep("one", HostOpcode.COPY, (2,), (5,), numbers)
    verdict = said(real, replace(artifact, steps=(whole, wrong)))
    assert verdict.status is Status.NOT_PROVED
    assert verdict.reason.startswith("output y: 1 of 4 elements, the first 2")


def test_a_strange_element_is_named_before_one_of_which_nothing_is_stored() -> None:
    """The artifact never loads w."""
    shapes = {"w": (1, 16), "x": (1, 16), "y": (1, 32)}
    tensors = tuple(
        ModelTensor(name, shape, "int8", (0.5,), (3,)) for name, shape in shapes.items()
    )
    tables = {"axis": 1, "tables": (NEXT, NEXT)}
    concat = ModelOperator("concat", (0, 1), (2,), tables, "the concat")
    artifact = least(9)
    x, y = artifact.tensors
    held = (x, replace(y, shape=(1, 32)), BufferView("w", (1, 16), DataType.INT8, 1, 16, 0.5, 3))
    artifact = replace(artifact, tensors=held, inputs=(2, 0))
    verdict = said(ModelNetwork("net", tensors, (concat,), (0, 1), (2,)), artifact)
    assert verdict.status is Status.NOT_PROVED
    assert "First at the concat, element 16, one of 32 that are missing: for sum " in verdict.reason


def test_of_operators_that_are_missing_the_first_is_named() -> None:
    x, y, z = (ModelTensor(name, (1, 16), "int8", (0.5,), (3,)) for name in "xyz")
    first = ModelOperator("reshape", (0,), (1,), {}, "the first")
    second = ModelOperator("table", (0,), (2,), {"table": OTHER}, "the second")
    nothing = replace(copy_model(), steps=())
    verdict = said(ModelNetwork("net", (x, y, z), (first, second), (0,), (2,)), nothing)
    assert verdict.status is Status.NOT_PROVED
    assert "First at the first, element 0, one of 16 that are missing: no byte" in verdict.reason


def test_what_the_host_takes_is_not_missed() -> None:
    """A softmax that a device never stores is not the first that is missing."""
    x, y, z = (ModelTensor(name, (1, 16), "int8", (0.5,), (3,)) for name in "xyz")
    taken = ModelOperator("softmax", (0,), (1,), {"axis": 1, "beta": 1.0}, "the softmax")
    then = ModelOperator("table", (1,), (2,), {"table": NEXT}, "the table")
    verdict = said(ModelNetwork("net", (x, y, z), (taken, then), (0,), (2,)), copy_model())
    assert verdict.status is Status.NOT_PROVED
    assert "First at the table, element 0, one of 16" in verdict.reason


@pytest.mark.parametrize(
    ("number", "fields", "where"),
    [
        (STORE, {"pop_prev": 0}, f"program copy, instruction {STORE}: "),
        (FINISH, {"pop_next": 0}, f"program copy, instruction {FINISH}: FINISH may come before"),
        (ALU, {"push_prev": 1}, "program copy: tokens are left over: "),
        (ALU, {"dst_out": 1, "iter_out": 2}, f"program copy, instruction {ALU}: ALU reads tiles"),
        (STORE, {"dram_base": 1}, "the artifact's output: "),
    ],
)
def test_what_is_wrong_has_its_place(number: int, fields: dict[str, int], where: str) -> None:
    verdict = said(network(), changed(copy_model(), number, **fields))
    assert verdict.status is Status.NOT_PROVED
    if number == STORE and "dram_base" in fields:
        assert verdict.reason.startswith("output y: 16 of 16 elements, the first 0")
        return
    assert verdict.reason.startswith(where)


def host_copy(artifact: Artifact, **numbers: int) -> HostStep:
    """Copies y to itself."""
    said = dict.fromkeys(COPY_PARAMETERS, 0) | {f"extent_{k}": 1 for k in range(1, 6)}
    said |= {"extent_0": 16, "in_stride_0": 1, "out_stride_0": 1} | numbers
    return HostStep("again", HostOpcode.COPY, artifact.outputs, artifact.outputs, said)


def test_a_step_of_the_host_is_in_no_program() -> None:
    artifact = copy_model()
    verdict = said(network(), replace(artifact, steps=(*artifact.steps, host_copy(artifact))))
    assert (verdict.status, verdict.steps) == (Status.PROVED, 1)
    wrong = replace(artifact, steps=(*artifact.steps, host_copy(artifact, extent_0=17)))
    assert said(network(), wrong).reason.startswith("step again (copy): its parameters do not fit")
    early = replace(artifact, steps=(host_copy(artifact), *artifact.steps))
    assert said(network(), early).reason.startswith("step again (copy) reads bytes of y that nobod")


def test_what_a_proof_does_not_cover_is_unsupported() -> None:
    artifact = copy_model()
    state = replace(artifact.regions[0], kind=RegionKind.STATE, data=b"")
    verdict = said(network(), replace(artifact, regions=(state, *artifact.regions[1:])))
    assert verdict.status is Status.UNSUPPORTED
    assert verdict.reason == "region micro-ops, which a run leaves to the next one"
    unknown = Proof.attempt(network("conv3d"), artifact, 1)
    assert (unknown.status, unknown.reason) == (
        Status.UNSUPPORTED,
        "the conv3d: operator conv3d",
    )
    assert (unknown.operators, unknown.steps, unknown.symbols, unknown.error_bits) == (0, 0, 0, 0)
    assert (unknown.tolerance, dict(unknown.equalities), unknown.said) == (1, {}, "unsupported")


def test_a_function_of_too_many_steps_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(SymbolMachine, "run", run)
    verdict = said(network(), copy_model())
    assert verdict.status is Status.NOT_PROVED
    assert verdict.reason.startswith("program copy, instruction 0: a byte is a function of too man")


@pytest.mark.parametrize(
    ("bits", "status", "made"),
    [
        ([60], Status.PROVED, 1),
        ([59, 1], Status.PROVED, 2),
        ([59, 60], Status.PROVED, 2),
        ([30, 29, 30], Status.PROVED, 3),
        ([1] * 60, Status.PROVED, 60),
        ([0], Status.UNSUPPORTED, 1),
        ([-3], Status.UNSUPPORTED, 1),
        ([59, 0], Status.UNSUPPORTED, 2),
    ],
)
def test_proofs_are_made_until_they_err_seldom(
    bits: list[int], status: Status, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = said(network(), copy_model())
    answers = iter([replace(verdict, error_bits=one) for one in bits])
    monkeypatch.setattr(Proof, "of", lambda *_: next(answers))
    got = Proof.attempt(network(), copy_model())
    assert got.status is status
    assert next(answers, None) is None
    assert len(bits) == made
    if status is Status.PROVED:
        assert got.error_bits == sum(bits)
    else:
        assert "divide the model" in got.reason


def test_what_is_not_proved_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = replace(said(network(), copy_model()), status=Status.NOT_PROVED, error_bits=1)
    answers = iter([verdict])
    monkeypatch.setattr(Proof, "of", lambda *_: next(answers))
    assert Proof.attempt(network(), copy_model()).status is Status.NOT_PROVED


def test_an_artifact_after_another_one_is_proved_by_itself() -> None:
    """Names that a first artifact's bytes have are not those of the second one's."""
    proof = Proof(network("table", table=NEXT))
    assert proof.of(least(5)).status is Status.PROVED
    assert proof.of(copy_model()).status is Status.NOT_PROVED
    nothing = replace(copy_model(), steps=())
    assert proof.of(nothing).status is Status.NOT_PROVED
    wrong, other = proof.of(least(9)), proof.of(copy_model())
    assert ": for sum " in wrong.reason
    assert ": no byte that was stored is of its sum" in other.reason
    assert proof.of(least(5)).status is Status.PROVED


def test_the_limit_is_the_issue_s() -> None:
    assert proof_module.ERROR_BITS == 60
    assert [status.value for status in Status] == [0, 1, 3]
    assert said(network(), copy_model()).said == "proved"
    verdict = ProofVerdict(Status.PROVED, "", 0, 0, 0, {}, 60)
    assert (verdict.tolerance, ProofVerdict.unsupported("it").tolerance) == (0, 0)
