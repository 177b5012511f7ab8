# SPDX-License-Identifier: Apache-2.0
"""compile(): from a model file to an artifact, as one function. Read this first.

In:   a model file (or a Relax module in canonical form), and a target.
Out:  Compiled: the artifact, who runs what and why, and figures.
Next: `Compiled.save` writes it; runtime/ runs it; runtime/device.py runs it from Python.

    model file -- frontend --> Relax, float -- quantize --> Relax, QDQ (an int8 model is one)
               -- a partitioner divides it --> graph and segments -- back ends lower --> regions
               -- deploy --> memory plan, programs, host steps = artifact
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from loadstone import graph as g
from loadstone.analysis.html import facts_table
from loadstone.analysis.known import known_of
from loadstone.analysis.loaded import LoadedModel
from loadstone.analysis.report import Known, ProfileReport, profile_report
from loadstone.artifact.deploy import Deployment
from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.artifact.states import with_states
from loadstone.backend.device import Device, DeviceProgram
from loadstone.backend.interface import Backend, Phase, Segment
from loadstone.backend.plugins import Registry
from loadstone.backend.region import LoweredRegion
from loadstone.backend.scope import apply_passes, register_tag
from loadstone.backend.target import Target, resolve
from loadstone.backend.tuned_file import tuned_schedules
from loadstone.errors import ConfigError, naming
from loadstone.files import JsonObject
from loadstone.frontend import Canonical, import_model, load
from loadstone.frontend.reading import STATES, WHOLE, Reading
from loadstone.numerics import Array
from loadstone.partition.cost.choice import CostPartitioner
from loadstone.partition.eager import HOST, Partition, explain
from loadstone.partition.lowering import Clock, LoweredPartition
from loadstone.partition.partitioner import Choice, EagerPartitioner, Partitioner
from loadstone.quantization.pipeline import Options, Quantized, quantize_module
from loadstone.relax.dump import Dump
from loadstone.runtime.acceptance import check_accepted
from loadstone.runtime.step_source import python_steps

if TYPE_CHECKING:
    from loadstone.backend.target import TargetSource
    from loadstone.frontend import Model
    from loadstone.quantization.samples import Arrays

__all__ = ["STRATEGIES", "CompileOptions", "Compiled", "compile", "quantize"]

#: Relax operators that a quantized network has in integers.
_MULTIPLY = {"nn.conv2d", "nn.conv1d", "nn.conv2d_transpose", "matmul", "nn.dense"}

#: How the network is divided among back ends and host.
STRATEGIES = ("eager", "cost")
_ONE_THREAD = RLock()  # TVM's builders keep one stack for all


@dataclass(frozen=True)
class CompileOptions:
    """What compile() is given besides the model. target: anything that target.resolve takes, such
    as a device's name or file.

    dump: a folder for what every stage makes. tuned: a file of `loadstone tune`, for schedules.
    plugins: back ends besides the built-in ones (plugins.load_plugins); None: the installed ones.
    samples: of a float model, to quantize it with first, as `quantize` takes them; options: its
        other arguments. Without a scheme, powers of two where a back end can only shift.
    strategy: "eager", to the first back end that takes an operator; "cost", to where the network
        takes least (partition/cost/choice.py).
    costs: a JSON file, read if it is there, written with what was new: same file, same artifact.
    reading: sizes that the model's file leaves open, and which part of it is wanted.
    states: inputs of the artifact, each with the output that is its value in the next run: both
        become memory of the session (artifact/states.py).
    """

    target: Any
    dump: str | Path | Dump | None = None
    plugins: Registry | None = None
    samples: Any = None
    options: Mapping[str, Any] | None = None
    strategy: str = "eager"
    costs: str | Path | None = None
    reading: Reading = WHOLE
    states: Mapping[str, str] = field(default_factory=dict)
    tuned: str | Path | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"compile: strategy {self.strategy!r} is not one of {', '.join(STRATEGIES)}"
            )


class _Choices(TypedDict, total=False):
    """Fields of CompileOptions that compile() takes by name alone."""

    samples: Any
    options: Mapping[str, Any] | None
    strategy: str
    costs: str | Path | None
    reading: Reading
    states: Mapping[str, str]
    tuned: str | Path | None


@dataclass(frozen=True, eq=False, repr=False)
class Compiled:
    """What compile() returns. seconds: by stage. choice: of strategy "cost". accelerators: what the
    target calls each back end. remarks: of each region, by operator, how its device does it.
    segments: what each back end lowered together."""

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

    @property
    def python_steps(self) -> list[HostStep]:
        """The steps that C cannot run: what a board without Python lacks."""
        return python_steps(self.artifact)

    def save(self, path: str | Path) -> None:
        """Writes the artifact."""
        self.artifact.save(path)

    @property
    def is_float(self) -> bool:
        """Nothing runs on an accelerator, and what multiplies does so in float32: a model that was
        not quantized."""
        relax: set[str] = set()
        for entry in self.partition.assignments:
            if not isinstance(entry.operator, g.Host) or entry.backend != HOST:
                return False
            relax.update(entry.operator.operators)
        return bool(relax & _MULTIPLY) and not relax & {"quantize", "dequantize"}

    def explain(self) -> list[JsonObject]:
        """One row per operator: operator, kind, where, why, remedy, how (where that is no
        matter of course), shape of its output, macs, and
        cycles that the compute stage of a simulated device works for it (None elsewhere); by cost
        also its alternatives: place, pattern, us, transfer_us."""
        cycles = self._cycles()
        rows: list[JsonObject] = []
        for row, assignment in zip(
            explain(self.partition), self.partition.assignments, strict=True
        ):
            operator = assignment.operator
            macs = int(getattr(operator, "macs", 0))  # of what multiplies and accumulates
            figures: JsonObject = {"shape": list(operator.output.shape), "macs": macs}
            rows.append({**row, **figures, "cycles": cycles.get(operator.name)})
            for remarks in self.remarks:
                if remark := remarks.get(operator.name):
                    rows[-1]["how"] = remark
        if self.choice is not None:
            for entries in rows:
                others = self.choice.alternatives.get(entries["operator"], ())
                entries["alternatives"] = [entry.to_json() for entry in others]
        return rows

    def known(self) -> Known:
        """What a profile of the artifact alone would not tell: kinds of operators, their own
        multiplications, and what back ends say of accelerators that are not simulated here."""
        return known_of(self.graph, self.segments, self.device, self.accelerators)

    def profile(self) -> ProfileReport:
        """What every layer takes, on one time axis; in a notebook, a table."""
        return profile_report(self.artifact, self.device, self.known(), trust=True)

    def _cycles(self) -> dict[str, int]:
        """By layer."""
        from loadstone.simulator.profile import layer_cycles

        return layer_cycles(self.artifact, self.device)

    @property
    def loaded(self) -> LoadedModel:
        """As `loadstone.load` gives it back from a file."""
        return LoadedModel(self.artifact, self.device, trust=True)

    def run(self, *inputs: Any, device: str = "sim") -> list[Array]:
        """Runs samples (arrays with a leading axis of samples, one per input) through the C
        runtime; one array per output."""
        return self.loaded.run(*inputs, device=device)

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
        programs = self.artifact.all_programs
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
            **({"by_cost": self.choice.to_json()} if self.choice is not None else {}),
        }


def quantize(
    model: Model,
    samples: Arrays,
    *,
    labels: Array | None = None,
    show: bool = False,
    where: str = "samples",
    reading: Reading = WHOLE,
    **options: Any,
) -> Quantized:
    """Quantizes a float model: a file, or a Relax module. The result has `module` (for compile),
    `save` (QDQ ONNX), `report`.

    samples: an array (samples, ...) of real numbers, several of them in the order of the inputs, or
        a mapping in0, in1 ...; behind the first axis each is shaped as the model's input is.
    labels: (samples,), a class per sample: accuracy before and after.
    reading: sizes that the model's file leaves open, and which part of it is wanted.
    options: fields of quantization.pipeline.Options.
    Raises ModelError for a model or samples that cannot be used.
    """
    with _ONE_THREAD:
        from loadstone.frontend.names import output_names

        imported = import_model(model, reading)
        return quantize_module(
            load(model if isinstance(model, Canonical) else imported),
            samples,
            Options(**options, show=show),
            labels=labels,
            outputs=output_names(imported["main"]),
            where=where,
        )


def compile(  # noqa: A001
    model: Model,
    target: TargetSource,
    dump: str | Path | Dump | None = None,
    plugins: Registry | None = None,
    **choices: Unpack[_Choices],
) -> Compiled:
    """Compiles `model` for `target`; the arguments are the fields of CompileOptions. Raises
    ModelError for a model that cannot be read, ConfigError for device, costs or schedules."""
    with _ONE_THREAD:
        return compile_model(model, CompileOptions(target, dump, plugins, **choices))


def compile_model(model: str | Path | Any, options: CompileOptions) -> Compiled:
    """The stages, in order."""
    clock = Clock()
    writer = options.dump if isinstance(options.dump, Dump) else Dump(options.dump)
    target = resolve(options.target, options.plugins)
    if target.spec.tag:
        register_tag(target.spec.tag, target.spec)
    with clock("import TVM"):
        import loadstone.relax.compat  # noqa: F401
    with clock("frontend"):
        module = load(model, options.reading)
        writer.write("relax", module)
        own = [str(text) for text in module["main"].attrs.get(STATES, ())]
    if options.samples is not None:
        with clock("quantize"):
            given = _quantize_options(options, target)
            quantized = quantize(Canonical(module), options.samples, **given)
            module = load(quantized.module)
            writer.write("qdq", module)
    with clock("partition"):
        module = apply_passes(target.backends, Phase.RELAX, module)
    name = Path(model).stem if isinstance(model, str | Path) else "model"
    partitioner = _partitioner(module, name, target, options)
    with tuned_schedules(options.tuned, target.backends, name), naming(name):
        lowered = partitioner.run(clock)
        _dump(lowered, writer)
        artifact = with_states(lowered.deployment.artifact, options.states, own)
        with clock("accept"):
            check_accepted(artifact)
        return _compiled(lowered, target, partitioner, clock, artifact)


def _quantize_options(options: CompileOptions, target: Target) -> dict[str, Any]:
    """Those that were given; a scheme that the target's back ends can do where none was."""
    given, best = dict(options.options or {}), target.scheme()  # refused also where one was given
    return {**given, "scheme": given.get("scheme") or best}


def _partitioner(module: Any, name: str, target: Target, options: CompileOptions) -> Partitioner:
    if options.strategy == "cost":
        return CostPartitioner(module, name, target, options.costs)
    return EagerPartitioner(module, name, target)


def _compiled(
    lowered: LoweredPartition,
    target: Target,
    partitioner: Partitioner,
    clock: Clock,
    artifact: Artifact,
) -> Compiled:
    names = {
        backend.name: str(backend.attributes.get("device", backend.name))
        for backend in target.backends
    }
    return Compiled(
        artifact,
        target.device,
        lowered.network,
        lowered.partition,
        lowered.deployment,
        clock.seconds,
        partitioner.choice,
        names,
        [region.remarks for region in lowered.regions if isinstance(region, LoweredRegion)],
        [
            (backend, segment)
            for segment in lowered.segments
            for backend in target.backends
            if backend.name == segment.backend
        ],
    )


def _dump(lowered: LoweredPartition, writer: Dump) -> None:
    if not writer.wanted:  # printing TensorIR takes as long as lowering it
        return
    writer.write("graph", lowered.network.describe())
    for region in lowered.regions:
        if isinstance(region, LoweredRegion):
            for layer, stages in region.stages.items():
                for title, text in stages:
                    writer.write(f"{layer}.{title}", text)
    writer.write("steps", "\n".join(map(_described, lowered.deployment.artifact.steps)))
    writer.check()


def _described(step: DeviceProgram | ProgramStep | HostStep) -> str:
    """One line of the steps in a dump; `loadstone disasm` shows the instructions."""
    if not isinstance(step, HostStep):
        return (
            f"device {step.name}: {len(step)} instructions for "
            f"{', '.join(dict.fromkeys(layer.name for layer in step.layers))}"
        )
    parameters = " ".join(f"{name}={value}" for name, value in step.parameters.items())
    return (
        f"host {step.name}: {step.opcode.name.lower()} {step.inputs} -> {step.outputs} {parameters}"
    ).rstrip()
