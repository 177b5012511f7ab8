# SPDX-License-Identifier: Apache-2.0
"""The result of compile(): the artifact, the place of each operator with the reason, and figures.

In:   the artifact, and the results of the stages of compiler.py.
Out:  Compiled: run, compare, profile, explain, report, save.
Next: a notebook, or the command line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone import graph as g
from loadstone.analysis.compare import Expected, LayerDifferences
from loadstone.analysis.html import facts_table
from loadstone.analysis.known import known_of
from loadstone.analysis.loaded import LoadedModel
from loadstone.analysis.report import Known, ProfileReport, profile_report
from loadstone.analysis.stated import StatedValues, stated_roundings
from loadstone.artifact.deploy import Deployment
from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.device import Device
from loadstone.backend.interface import Backend, Segment
from loadstone.files import JsonObject
from loadstone.language.words import save_words
from loadstone.numerics import Array
from loadstone.partition.eager import HOST, Partition, explain
from loadstone.partition.partitioner import Choice
from loadstone.passes.log import PassRun
from loadstone.quantization.pipeline import Quantized
from loadstone.runtime.external_steps import code_steps
from loadstone.runtime.own_files import remember
from loadstone.runtime.step_source import python_steps

if TYPE_CHECKING:
    from loadstone.analysis.expected import Against
    from loadstone.runtime.arrays import TensorInfo

__all__ = ["Compiled"]

#: Relax operators that a quantized network has in integers.
_MULTIPLY = {"nn.conv2d", "nn.conv1d", "nn.conv2d_transpose", "matmul", "nn.dense"}


@dataclass(frozen=True, eq=False, repr=False)
class Compiled:
    """The result of compile(). seconds: by stage. choice: of strategy "cost". accelerators: by back
    end, its name in the target. remarks: by region and operator, the method that the device uses.
    segments: the operators that one back end lowered together. quantized: of a float model with
    samples. passes: those that ran, in the order of passes/table.py. words: the tokenizer of a
    language model (frontend/gguf_words.py). weight_errors: of linears that keep the 4 bits of their
    file (frontend/reading.WEIGHT_ERRORS)."""

    artifact: Artifact
    device: Device
    graph: g.Graph
    partition: Partition
    deployment: Deployment
    seconds: Mapping[str, float] = field(default_factory=dict)
    choice: Choice | None = None
    accelerators: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[Mapping[str, str]] = ()
    segments: Sequence[tuple[Backend, Segment]] = ()
    quantized: Quantized | None = None
    passes: tuple[PassRun, ...] = ()
    words: JsonObject | None = None
    weight_errors: Sequence[JsonObject] = ()

    @property
    def python_steps(self) -> list[HostStep]:
        """The steps that need Python: a board without it cannot run them."""
        return python_steps(self.artifact)

    def save(self, path: str | Path) -> None:
        """Writes the artifact, and beside that of a language model its words (language/words.py).
        One with steps that are programs is recorded as this user's own: on this machine it runs
        without --trust (runtime/own_files.py)."""
        self.artifact.save(path)
        if self.words is not None:
            save_words(self.words, path)
        if code_steps(self.artifact):
            remember(self.artifact)

    @property
    def is_float(self) -> bool:
        """Whether no operator runs on an accelerator, and those that multiply use float32: the
        model was not quantized. Products with int32 sums are a quantized model's, wherever costs
        put them."""
        from loadstone.relax.compat import bindings, dtype, is_call

        relax: set[str] = set()
        for entry in self.partition.assignments:
            if not isinstance(entry.operator, g.Host) or entry.backend != HOST:
                return False
            relax.update(entry.operator.operators)
            calls = [call for _, call in bindings(entry.operator.function["main"])]
            if any(is_call(call, *_MULTIPLY) and dtype(call) == "int32" for call in calls):
                return False
        return bool(relax & _MULTIPLY) and not relax & {"quantize", "dequantize"}

    def explain(self) -> list[JsonObject]:
        """One row per operator of the first entry: operator, kind, where, why, remedy, how (the
        method, where there are several), shape of its output, macs; on a simulated device, else
        None: cycles in total, as in `profile`, and compute_busy_cycles, those in which the compute
        stage works for it;
        with strategy "cost" also its alternatives: place, pattern, us, transfer_us."""
        from loadstone.simulator.programs import layer_figures

        counted = layer_figures(self.artifact.only(), self.device)
        rows: list[JsonObject] = []
        for row, assignment in zip(
            explain(self.partition), self.partition.assignments, strict=True
        ):
            operator = assignment.operator
            macs = int(getattr(operator, "macs", 0))  # of what multiplies and accumulates
            figures: JsonObject = {"shape": list(operator.output.shape), "macs": macs}
            layer = counted.get(operator.name)
            cycles = None if layer is None else layer.cycles
            works = None if layer is None else layer.working_cycles
            rows.append({**row, **figures, "cycles": cycles, "compute_busy_cycles": works})
            if assignment.taken is not None and assignment.taken.how:
                rows[-1]["how"] = assignment.taken.how
            for remarks in self.remarks:
                if remark := remarks.get(operator.name):
                    rows[-1]["how"] = remark
        if self.choice is not None:
            for entries in rows:
                others = self.choice.alternatives.get(entries["operator"], ())
                entries["alternatives"] = [entry.to_json() for entry in others]
        return rows

    def known(self) -> Known:
        """What a profile of the artifact alone lacks: the kinds of operators, their
        multiplications, the cycles that back ends estimate for accelerators without a simulator,
        and the signal-to-noise ratio of each layer where a float model was quantized."""
        found = known_of(self.graph, self.segments, self.device, self.accelerators)
        layers = self.quantized.report["layers"] if self.quantized is not None else ()
        lost = {e["name"]: e["sqnr_db"] for e in layers if e["sqnr_db"] is not None}
        return replace(found, sqnr_db=lost)

    def profile(self) -> ProfileReport:
        """The time of every layer of the first entry, on one time axis; in a notebook, a table."""
        return profile_report(self.artifact.only(), self.device, self.known(), trust=True)

    @property
    def loaded(self) -> LoadedModel:
        """The same as `loadstone.load` returns for a file."""
        return LoadedModel(self.artifact, self.device, trust=True)

    def run(
        self,
        *inputs: object,
        device: str = "sim",
        allow_nan: bool = False,
        entry: str | None = None,
        **named: object,
    ) -> list[Array]:
        """Runs samples (arrays with a leading axis of samples, one per input, or by name) through
        the C runtime; one array per output. allow_nan: NaN goes in as it is. entry: by name."""
        return self.loaded.run(*inputs, device=device, allow_nan=allow_nan, entry=entry, **named)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape, type and quantization of each input of a sample."""
        return self.loaded.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The same of each output."""
        return self.loaded.outputs

    def compare(
        self,
        *inputs: object,
        against: Against | Quantized | None = None,
        device: str = "sim",
        sample: int = 0,
    ) -> LayerDifferences:
        """Compares every layer of one sample with its expected value, as LoadedModel.compare does.
        against: None: the network that was compiled, by its definition, and by the roundings that
        its back ends state."""
        if against is None:
            return self.loaded.compare_with(self._stated, inputs, device, sample)
        right = against.module if isinstance(against, Quantized) else against
        return self.loaded.compare(*inputs, against=right, device=device, sample=sample)

    def _stated(self, inputs: Sequence[Array]) -> Expected:
        """Of every tensor, for the inputs of one run."""
        backends = [backend for backend, _ in self.segments]
        roundings = stated_roundings(self.partition, self.graph, backends, frozenset())
        return StatedValues.of(self.graph, inputs, roundings).expected

    def __repr__(self) -> str:
        on_host = sum(entry.backend == HOST for entry in self.partition.assignments)
        count = len(self.partition.assignments)
        return f"<compiled {self.loaded!r:.200}; {count - on_host} of {count} operators on devices>"

    def _repr_html_(self) -> str:
        report = self.report()
        places = ", ".join(f"{n} on {where}" for where, n in report["operators_by_place"].items())
        return facts_table(
            f"{report['model']} for {report['device']}",
            {
                "operators": places,
                "instructions": f"{report['instructions']:,}",
                "constants, bytes": f"{report['regions_bytes']['constants']:,}",
                "activations, bytes": f"{report['arena_bytes']:,}",
                "runs in C": "no" if report["steps_in_python"] else "yes",
            },
        )

    def report(self) -> JsonObject:
        """Figures as JSON: operators by place, instructions, memory, time."""
        on_host = [p.operator.name for p in self.partition.assignments if p.backend == HOST]
        places = Counter(
            self.accelerators.get(p.backend, p.backend) for p in self.partition.assignments
        )
        arena = self.deployment.arena
        programs = self.artifact.programs
        return {
            "model": self.artifact.name,
            "device": self.device.name,
            "samples": self.artifact.samples,
            "operators": len(self.partition.assignments),
            "operators_on_host": on_host,
            "operators_by_place": dict(places),
            "instructions": sum(len(p) for p in programs),
            "programs": len(programs),
            "steps": len(self.artifact.steps),
            "steps_in_python": [
                f"{s.name} ({s.function.removeprefix('loadstone.')})" for s in self.python_steps
            ],
            "regions_bytes": {r.name: r.size_bytes for r in self.artifact.regions},
            "arena_bytes": arena.size_bytes,
            "arena_sum_bytes": arena.sum_bytes,
            "arena_bound_bytes": arena.bound_bytes,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            **({"quantization": self._quantization()} if self.quantized is not None else {}),
            **({"weight_errors": [*self.weight_errors]} if self.weight_errors else {}),
            **({"by_cost": self.choice.to_json()} if self.choice is not None else {}),
        }

    def _quantization(self) -> JsonObject:
        """The cost of the quantization, without its layers."""
        assert self.quantized is not None
        report = self.quantized.report
        return {name: report[name] for name in report if name != "layers"}
