# SPDX-License-Identifier: Apache-2.0
"""choice.py and candidates.py: back ends that compete by cost, fused and unfused, on networks whose
integers must not change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import graph as g
from loadstone.backend.external import register_external
from loadstone.backend.interface import Attribute, Backend, External, Pattern, Segment, offered
from loadstone.backend.plugins import Registry, load_plugins
from loadstone.cli import main
from loadstone.commands.explained import table
from loadstone.compiler import Compiled, compile
from loadstone.errors import BackendError, ConfigError
from loadstone.frontend import load
from loadstone.graph.reference import run_operator
from loadstone.partition.cost.candidates import AloneCost, candidates
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.cost.search import ROWS
from loadstone.partition.eager import HOST, matches
from loadstone.partition.patterns import OperatorPattern, operator_pattern
from loadstone.partition.patterns.forms import dq, op, q
from loadstone.partition.patterns.reader import Reader
from tests.conftest import ROOT
from tests.draw import Random
from tests.onnx_builder import Graph

DEVICE = "vtaq-1x16x16"


@dataclass(frozen=True, eq=False, kw_only=True)
class AddSub(g.Operator):
    """Two operators in one: the difference of a sum and something."""

    kind = "add_sub"
    parts: tuple[g.Operator, g.Operator]


def add_sub(reader: Reader, root: Any) -> AddSub:
    sub = operator_pattern("sub").extract(reader, root)
    difference = reader.call(reader.call(root).args[0])
    add = operator_pattern("add").extract(
        reader, reader.call(reader.call(difference.args[0]).args[0])
    )
    return AddSub(
        name=sub.name, inputs=(*add.inputs, sub.inputs[1]), outputs=sub.outputs, parts=(add, sub)
    )


FUSED = OperatorPattern(
    "add_sub", lambda: q(op("subtract")(dq(q(op("add")(dq(), dq()))), dq())), add_sub
)


class Npu(Backend):
    """Sums, differences, products, and a difference of a sum; computed by their definition, at a
    price of one's choice."""

    name: ClassVar[str] = "npu"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("cycles", 1000, "of an operator"),
        Attribute("fused_cycles", 1 << 30, "of a difference of a sum"),
        Attribute("clock_mhz", 100, "clock in MHz"),
    )
    segments: ClassVar[dict[str, Segment]] = {}

    def patterns(self) -> Sequence[Pattern]:
        return [Pattern("add_sub", FUSED, lambda _: None), *map(offered, ("add", "sub", "mul"))]

    def lower(self, segment: Segment) -> Any:
        from loadstone.backend.region import ExternalRegion

        key = " ".join(tensor.name for tensor in (*segment.inputs, *segment.outputs))
        self.segments[key] = segment
        return ExternalRegion(
            segment.name, segment.operators, segment.inputs, segment.outputs, "npu.run", key, {}
        )

    def cost_cycles(self, segment: Segment) -> int:
        kinds = {AddSub: int(self.attributes["fused_cycles"])}
        return sum(
            kinds.get(type(operator), int(self.attributes["cycles"]))
            for operator in segment.operators
        )

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        return {"npu.run": cls.run}

    @classmethod
    def run(cls, arrays: Sequence[NDArray[Any]], key: str) -> list[NDArray[Any]]:
        segment = cls.segments[key]
        values = {tensor.name: array for tensor, array in zip(segment.inputs, arrays, strict=True)}
        for operator in segment.operators:
            for part in operator.parts if isinstance(operator, AddSub) else (operator,):
                (values[part.output.name],) = run_operator(
                    part, [values[tensor.name] for tensor in part.inputs]
                )
        return [values[tensor.name] for tensor in segment.outputs]


class Straight(Npu):
    """The same, for a price of its own, from the Relax of its segments."""

    name: ClassVar[str] = "straight"
    composites: ClassVar[list[str]] = []

    def lower(self, segment: Segment) -> Any:
        functions = segment.relax().functions.values()
        self.composites += [
            str(function.attrs["Composite"])
            for function in functions
            if function.attrs and "Composite" in function.attrs
        ]
        return super().lower(segment)


PLUGINS = Registry({"npu": Npu, "straight": Straight})


@pytest.fixture(autouse=True)
def known() -> None:
    register_external("npu.run", Npu.run)


@pytest.fixture(autouse=True)
def host_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is slow, the same every time, and transfers cost something."""

    def measured(self: CostTable, step: Any, artifact: Any) -> int:
        return 1_000_000 if step.function else 10_000

    monkeypatch.setattr(CostTable, "_measured_ns", measured)


def step(graph: Graph, kind: str, *inputs: str, **attributes: Any) -> str:
    real = [graph.dequantize(x, 0.5, 0) for x in inputs]
    return graph.quantize(graph.node(kind, *real, **attributes), 0.5, 0)


def chain(graph: Graph, x: str) -> str:
    """add, sub, mul: all in one line."""
    return step(graph, "Mul", step(graph, "Sub", step(graph, "Add", x, x), x), x)


def saved(folder: Path, build: Callable[[Graph, str], str]) -> Path:
    graph = Graph()
    x = graph.input((1, 6, 6, 16), np.int8)
    path = folder / f"{build.__name__}.onnx"
    path.write_bytes(graph.save([(build(graph, x), np.int8)]))
    return path


def compiled(
    model: Path, target: str, strategy: str = "cost", costs: Path | None = None
) -> Compiled:
    return compile(model, target, plugins=PLUGINS, strategy=strategy, costs=costs)


def where(result: Compiled) -> list[tuple[str, str]]:
    return [
        (assignment.operator.kind, assignment.backend)
        for assignment in result.partition.assignments
    ]


def outputs(result: Compiled) -> NDArray[Any]:
    (y,) = result.run(Random(5).int8(3, 1, 6, 6, 16))
    return np.asarray(y)


# --- who wins -------------------------------------------------------------------------------------
def test_the_cheaper_of_two_back_ends_gets_the_network_and_the_integers_stay(
    tmp_path: Path,
) -> None:
    model = saved(tmp_path, chain)
    slow, fast = f"npu -cycles=100000,{DEVICE}", f"npu -cycles=10,{DEVICE}"
    eager = compiled(model, slow, "eager")
    assert {backend for _, backend in where(eager)} == {"npu"}
    by_cost = compiled(model, slow)
    assert {backend for _, backend in where(by_cost)} == {"vta"}
    assert by_cost.choice is not None
    assert by_cost.choice.totals["chosen"].ns < by_cost.choice.totals["eager"].ns
    np.testing.assert_array_equal(outputs(by_cost), outputs(eager))
    assert {backend for _, backend in where(compiled(model, fast))} == {"npu"}
    assert {backend for _, backend in where(compiled(model, f"{DEVICE},npu -cycles=10"))} == {"npu"}


def test_a_switch_pays_only_when_it_saves_more_than_the_transfers(tmp_path: Path) -> None:
    """A transfer takes 10 us, and VTA needs four: x in, the sum out to the host's operator, its
    result in, the last out."""

    def around(graph: Graph, x: str) -> str:
        return step(graph, "Add", step(graph, "LeakyRelu", step(graph, "Add", x, x), alpha=0.5), x)

    model = saved(tmp_path, around)
    dear = compiled(model, f"{DEVICE},npu -cycles=1500")
    assert where(dear) == [("add", "npu"), ("lookup", HOST), ("add", "npu")]
    dearer = compiled(model, f"{DEVICE},npu -cycles=10000")
    assert where(dearer) == [("add", "vta"), ("lookup", HOST), ("add", "vta")]


def test_eager_stays_where_it_costs_no_more(tmp_path: Path) -> None:
    model = saved(tmp_path, chain)
    result = compiled(model, DEVICE)
    assert result.choice is not None
    assert (result.choice.chosen, result.choice.totals["chosen"].ns) == (
        "eager",
        result.choice.totals["eager"].ns,
    )
    assert result.artifact.to_bytes() == compiled(model, DEVICE, "eager").artifact.to_bytes()


def test_a_back_end_that_reads_relax_competes_too(tmp_path: Path) -> None:
    model = saved(tmp_path, chain)
    result = compiled(model, f"npu -cycles=2000,straight -cycles=10,{DEVICE}")
    assert {backend for _, backend in where(result)} == {"straight"}
    assert set(Straight.composites) == {
        "straight.add_sub",
        "straight.add",
        "straight.sub",
        "straight.mul",
    }
    np.testing.assert_array_equal(outputs(result), outputs(compiled(model, DEVICE, "eager")))


@pytest.mark.parametrize("cycles", [1.5, -1])
def test_what_is_no_cost_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cycles: float
) -> None:
    monkeypatch.setattr(Npu, "cost_cycles", lambda self, segment: cycles)
    with pytest.raises(
        BackendError,
        match=f"back end npu in .*cost of .*cost_cycles gave {cycles}, not a whole number",
    ):
        compiled(saved(tmp_path, chain), f"{DEVICE},npu")


@pytest.mark.full
def test_a_real_network_between_two_back_ends_equals_litert(shared: Path, tmp_path: Path) -> None:
    """The example's 64 multipliers are slower than VTA-Q for all nine convolutions; 4096 are faster
    for those that do most."""
    plugins = load_plugins([ROOT / "docs/examples/c_library"])
    golden = np.load(shared / "models/golden/mlpt_resnet8_int8.tflite.npz")
    taken = []
    for multipliers in (64, 4096):
        target = f"my-accel -macs_per_cycle={multipliers},{DEVICE}"
        results = [
            compile(
                shared / "models/mlpt_resnet8_int8.tflite",
                target,
                plugins=plugins,
                strategy=strategy,
            )
            for strategy in ("eager", "cost")
        ]
        for result in results:
            np.testing.assert_array_equal(result.run(golden["in0"][:2])[0], golden["out0"][:2])
        choice = results[1].choice
        assert choice is not None
        assert choice.totals["chosen"].ns <= choice.totals["eager"].ns
        taken.append(
            [sum(backend == "my-accel" for _, backend in where(result)) for result in results]
        )
    assert taken[0] == [9, 0]
    assert taken[1][1] > 0


# --- fused and unfused ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fused_cycles", "kinds"), [(10, ["add_sub", "mul"]), (5000, ["add", "sub", "mul"])]
)
def test_a_fused_candidate_competes_with_its_parts(
    tmp_path: Path, fused_cycles: int, kinds: list[str]
) -> None:
    model = saved(tmp_path, chain)
    target = f"npu -cycles=2000 -fused_cycles={fused_cycles}"
    result = compiled(model, target)
    assert where(result) == [(kind, "npu") for kind in kinds]
    np.testing.assert_array_equal(outputs(result), outputs(compiled(model, DEVICE, "eager")))


def test_an_operator_whose_result_others_read_is_not_fused(tmp_path: Path) -> None:
    def shared_sum(graph: Graph, x: str) -> str:
        total = step(graph, "Add", x, x)
        return step(graph, "Mul", step(graph, "Sub", total, x), total)

    result = compiled(saved(tmp_path, shared_sum), "npu -fused_cycles=1")
    assert sorted(kind for kind, _ in where(result)) == ["add", "mul", "sub"]


def test_what_belongs_together_is_one_node_and_pieces_of_a_form_are_no_candidates(
    tmp_path: Path,
) -> None:
    module = load(saved(tmp_path, chain))
    found, _ = matches(module, [Npu()])
    assert any(match.pattern == "dequantize" for match in found)
    made = candidates(module, found, lambda operator, place: AloneCost(ROWS, 1))
    assert made.problem.nodes == 3
    patterns = sorted(
        f"{match.backend}.{match.pattern}" for match in made.matches if match is not None
    )
    ours = ["npu.add", "npu.add_sub", "npu.mul", "npu.sub"]
    assert patterns == sorted(["host.add", "host.mul", "host.sub", *ours])
    assert {len(candidate.covers) for candidate in made.problem.candidates} == {1, 2}


# --- files, reports, mistakes ---------------------------------------------------------------------
def test_two_compilations_with_one_file_of_costs_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, costs = saved(tmp_path, chain), tmp_path / "costs.json"
    target = f"npu -cycles=1500,{DEVICE}"
    first = compiled(model, target, costs=costs)
    text = costs.read_text()
    monkeypatch.setattr(
        CostTable,
        "_measured_ns",
        lambda *_: pytest.fail("a cost that is in the file was measured again"),
    )
    second = compiled(model, target, costs=costs)
    assert second.artifact.to_bytes() == first.artifact.to_bytes()
    assert costs.read_text() == text


def test_costs_of_a_persons_own_decide(tmp_path: Path) -> None:
    model, costs = saved(tmp_path, chain), tmp_path / "costs.json"
    assert {backend for _, backend in where(compiled(model, DEVICE, costs=costs))} == {"vta"}
    data = json.loads(costs.read_text())
    data["host_ns"] = {
        key: 100 if key.startswith("loadstone.operator") else ns
        for key, ns in data["host_ns"].items()
    }
    costs.write_text(json.dumps(data))
    result = compiled(model, DEVICE, costs=costs)
    assert {backend for _, backend in where(result)} == {HOST}
    np.testing.assert_array_equal(outputs(result), outputs(compiled(model, DEVICE, "eager")))
    assert "it would take it, but the network then costs more" in result.explain()[0]["why"]


def test_explain_shows_what_each_operator_would_cost_elsewhere(tmp_path: Path) -> None:
    result = compiled(saved(tmp_path, chain), f"npu -cycles=1500,{DEVICE}")
    rows = {row["kind"]: row for row in result.explain()}
    entries = {
        f"{entry['place']}.{entry['pattern']}": entry for entry in rows["add"]["alternatives"]
    }
    assert list(entries) == ["npu.add", "vta.add", "host.add"]
    assert entries["npu.add"] == {"place": "npu", "pattern": "add", "us": 15.0, "transfer_us": 0.0}
    assert entries["vta.add"]["transfer_us"] == 20.0
    assert entries["host.add"]["us"] == 1000.0
    assert "npu.add 15.0 us" in table(result.explain())
    assert result.report()["by_cost"]["chosen"] in ("eager", "cost")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = str(saved(tmp_path, chain)), str(tmp_path / "out.lds")
    assert (
        main(
            [
                "compile",
                model,
                "-t",
                DEVICE,
                "--partition",
                "cost",
                "--costs",
                str(tmp_path / "c.json"),
                "--explain",
                "-o",
                out,
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "costs: vta.add" in said
    assert "by cost" in said
    assert main(["compile", model, "-t", DEVICE, "--costs", "c.json", "-o", out]) != 0
    assert "--costs is for --partition cost" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="strategy 'fast' is not one of eager, cost"):
        compile(model, DEVICE, strategy="fast")
