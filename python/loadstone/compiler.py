"""compile(): from a model file to an artifact, as one function. Read this first.

In:   a model file (or a Relax module in canonical form), and a target.
Out:  Compiled: the artifact, who runs what and why, and figures.
Next: `Compiled.save` writes it; runtime/ runs it; runtime/device.py runs it from Python.

    model file -- frontend --> Relax, float -- quantize --> Relax, QDQ (an int8 model is QDQ at
    once)
               -- partition --> graph and segments -- back end lowers --> regions
               -- deploy --> memory plan, programs, host steps = artifact
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from loadstone import graph as g
from loadstone.artifact.deploy import Deployment, DeviceIdentity, deploy
from loadstone.artifact.format import Artifact, DeviceProgram, HostStep
from loadstone.backend.interface import Backend, Phase, Segment
from loadstone.backend.plugins import Registry
from loadstone.backend.region import ExternalRegion, LoweredRegion
from loadstone.backend.scope import apply_passes, register_tag, within
from loadstone.backend.target import Target, resolve
from loadstone.dump import Dump
from loadstone.errors import ConfigError
from loadstone.frontend import import_model, load
from loadstone.graph.batching import batched
from loadstone.partition.cost.choice import Choice, Realised, choose
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.eager import HOST, Match, Partition, explain, partition
from loadstone.partition.network_pass import apply_graph_passes
from loadstone.partition.relax_region import region_as_relax
from loadstone.quantization.pipeline import Options, Quantized, quantize_module

__all__ = ["STRATEGIES", "Compiled", "compile", "lower_segments", "quantize"]


#: How the network is divided among back ends and host.
STRATEGIES = ("eager", "cost")


@dataclass(frozen=True, eq=False)
class Compiled:
    """What compile() returns. seconds: by stage. choice: of strategy "cost". accelerators: what the
    target calls each back end."""

    artifact: Artifact
    device: DeviceIdentity
    graph: g.Graph
    partition: Partition
    deployment: Deployment
    seconds: Mapping[str, float] = field(default_factory=dict)
    choice: Choice | None = None
    accelerators: Mapping[str, str] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Writes the artifact."""
        self.artifact.save(path)

    def explain(self) -> list[dict[str, Any]]:
        """One row per operator: operator, kind, where, why, remedy; by cost also its alternatives:
        place, pattern, us, transfer_us."""
        rows: list[dict[str, Any]] = [{**row} for row in explain(self.partition)]
        if self.choice is not None:
            for row in rows:
                row["alternatives"] = [
                    entry.to_json() for entry in self.choice.alternatives.get(row["operator"], ())
                ]
        return rows

    def run(self, *inputs: Any, device: str = "sim") -> list[Any]:
        """Runs samples (arrays with a leading axis of samples, one per input) through the C
        runtime; one array per output."""
        from loadstone.runtime.device import Device
        from loadstone.runtime.device import open as open_device

        opened = (
            Device("sim", "", cast(Any, self.device)) if device == "sim" else open_device(device)
        )
        with opened, opened.load(self.artifact) as session:
            return session.run(inputs)

    def report(self) -> dict[str, Any]:
        """Figures as JSON: operators by place, instructions, memory, time."""
        on_host = [p.operator.name for p in self.partition.placements if p.backend == HOST]
        places = Counter(
            self.accelerators.get(p.backend, p.backend) for p in self.partition.placements
        )
        arena = self.deployment.arena
        return {
            "model": self.artifact.name,
            "device": self.device.name,
            "samples": self.artifact.samples,
            "operators": len(self.partition.placements),
            "operators_on_host": on_host,
            "operators_by_place": dict(places),
            "instructions": sum(len(p) for p in self.artifact.programs),
            "programs": len(self.artifact.programs),
            "steps": len(self.artifact.steps),
            "regions_bytes": {r.name: r.size_bytes for r in self.artifact.regions},
            "arena_bytes": arena.size_bytes,
            "arena_sum_bytes": arena.sum_bytes,
            "arena_bound_bytes": arena.bound_bytes,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            **({"by_cost": self.choice.to_json()} if self.choice is not None else {}),
        }


def quantize(
    model: str | Path | Any,
    samples: Any,
    *,
    labels: Any = None,
    show: bool = False,
    where: str = "samples",
    **options: Any,
) -> Quantized:
    """Quantizes a float model: a file, or a Relax module. The result has `module` (for compile),
    `save` (QDQ ONNX), `report`.

    samples: an array with a leading axis of samples, several of them in the order of the inputs, or
        a mapping in0, in1 ...
    labels: a class per sample: accuracy before and after. options: fields of quantize.Options.
    Raises ModelError for a model or samples that cannot be used.
    """
    from loadstone.relax.compat import result

    imported = import_model(model)
    main = imported["main"]
    names = (
        main.attrs["loadstone.outputs"]
        if "loadstone.outputs" in main.attrs
        else [variable.name for variable in result(main)]
    )
    names = [str(name) for name in names]
    return quantize_module(
        load(imported),
        samples,
        Options(**options),
        labels=labels,
        outputs=names,
        show=show,
        where=where,
    )


def compile(  # noqa: A001
    model: str | Path | Any,
    target: Any,
    dump: str | Path | None = None,
    plugins: Registry | None = None,
    *,
    samples: Any = None,
    options: Mapping[str, Any] | None = None,
    strategy: str = "eager",
    costs: str | Path | None = None,
) -> Compiled:
    """Compiles `model` for `target`: anything that target.resolve takes, such as a device's name or
    file.

    plugins: back ends that the target may name besides the built-in ones (plugins.load_plugins);
        None: the installed ones.
    samples: of a float model, to quantize it with first, as `quantize` takes them; options: its
        other arguments. Without a scheme among them, powers of two for a target that has a back end
        which can only shift.
    strategy: "eager", every operator goes to the first back end that takes it; or "cost", to where
        the network takes least (partition/cost/choice.py).
    costs: a JSON file of costs, read if it is there, written with what was new: with the same file
        the artifact is the same.

    Raises ModelError for a model that cannot be read or holds what Loadstone does not do,
    ConfigError for the device or the costs.
    """
    if strategy not in STRATEGIES:
        raise ConfigError(f"compile: strategy {strategy!r} is not one of {', '.join(STRATEGIES)}")
    clock = _Clock()
    chosen = resolve(target, plugins)
    if chosen.spec.tag:
        register_tag(chosen.spec.tag, chosen.spec)
    writer = Dump(dump)
    with clock("import TVM"):
        import loadstone.relax.compat  # noqa: F401
    with clock("frontend"):
        module = load(model)
        name = Path(model).stem if isinstance(model, str | Path) else "model"
        writer.write("relax", module)
    if samples is not None:
        with clock("quantize"):
            scheme = (
                "pow2" if any(backend.scheme == "pow2" for backend in chosen.backends) else "affine"
            )
            asked = dict(options or {})
            module = load(
                quantize(
                    model, samples, **{**asked, "scheme": asked.get("scheme") or scheme}
                ).module
            )
            writer.write("qdq", module)

    def split(matches: Sequence[Match] | None = None) -> Partition:
        return apply_graph_passes(
            partition(module, chosen.backends, name, matches), chosen.backends
        )

    with clock("partition"):
        module = apply_passes(chosen.backends, Phase.RELAX, module)
        divided = split()
    realised = _realise(divided, chosen, clock)
    choice = None
    if strategy == "cost":
        with clock("choice"):
            table = CostTable(chosen.device, costs)
            choice = choose(
                module,
                chosen.backends,
                realised,
                split,
                lambda other: _realise(other, chosen, _Clock()),
                table,
            )
            table.save()
            realised = choice.realised
    _dump(realised, writer)
    deployment = realised.deployment
    names = {
        backend.name: str(backend.attributes.get("device", backend.name))
        for backend in chosen.backends
    }
    return Compiled(
        deployment.artifact,
        chosen.device,
        realised.network,
        realised.partition,
        deployment,
        clock.seconds,
        choice,
        names,
    )


def _realise(divided: Partition, target: Target, clock: _Clock) -> Realised:
    """Lowers a partition."""
    network, renewed = batched(divided.graph, target.device.batch)
    with clock("lower"):
        regions = lower_segments(divided, network, renewed, target.backends)
    with clock("deploy"):
        deployment = deploy(
            network,
            regions,
            target.device,
            target.align_bytes,
            partial(_building, divided, target.backends),
        )
    segments = tuple(_renewed(divided, segment, network, renewed) for segment in divided.segments)
    return Realised(divided, network, segments, regions, deployment)


def _building(
    divided: Partition, backends: Sequence[Backend], region: LoweredRegion
) -> AbstractContextManager[None]:
    """The scope in which a region makes its program."""
    made = region.operators[0].name
    maker = next(
        segment.backend
        for segment in divided.segments
        if made in (operator.name for operator in segment.operators)
    )
    backend = next(backend for backend in backends if backend.name == maker)
    return within(backend, f"program of {region.name}")


def _dump(realised: Realised, writer: Dump) -> None:
    if writer.folder is None:  # printing TensorIR takes as long as lowering it
        return
    writer.write("graph", realised.network.describe())
    for region in realised.regions:
        for layer, stages in getattr(region, "stages", {}).items():
            for title, text in stages:
                writer.write(f"{layer}.{title}", text)
    writer.write("steps", "\n".join(map(_described, realised.deployment.artifact.steps)))


def _described(step: DeviceProgram | HostStep) -> str:
    """One line of the steps in a dump; `loadstone disasm` shows the instructions."""
    if isinstance(step, DeviceProgram):
        return (
            f"device {step.name}: {len(step)} instructions for "
            f"{', '.join(dict.fromkeys(layer.name for layer in step.layers))}"
        )
    parameters = " ".join(f"{name}={value}" for name, value in step.parameters.items())
    return (
        f"host {step.name}: {step.operator.name.lower()} {step.inputs} -> {step.outputs} "
        f"{parameters}"
    ).rstrip()


def lower_segments(
    divided: Partition,
    network: g.Graph,
    renewed: Mapping[g.Operator, g.Operator],
    backends: Sequence[Backend],
) -> list[LoweredRegion | ExternalRegion | g.Operator]:
    """The network's operators in order, those of one segment replaced by what the back end made of
    them."""
    by_name = {backend.name: backend for backend in backends}
    segment_of = {
        operator: segment for segment in divided.segments for operator in segment.operators
    }
    steps: list[LoweredRegion | ExternalRegion | g.Operator] = []
    lowered: set[str] = set()
    for operator in divided.graph.operators:
        segment = segment_of.get(operator)
        if segment is None:
            steps.append(renewed[operator])
        elif segment.name not in lowered:
            lowered.add(segment.name)
            backend = by_name[segment.backend]
            names = [part.name for part in segment.operators]
            with within(
                backend,
                "lowering of "
                f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}",
            ):
                region = backend.lower(_renewed(divided, segment, network, renewed))
                if not (isinstance(region, ExternalRegion) or hasattr(region, "build")):
                    raise TypeError(
                        f"lower returned {region!r}: neither an ExternalRegion nor a LoweredRegion"
                    )
                steps.append(region)
    return steps


def _renewed(
    divided: Partition, segment: Segment, network: g.Graph, renewed: Mapping[g.Operator, g.Operator]
) -> Segment:
    tensors = {t.name: t for o in renewed.values() for t in (*o.inputs, *o.outputs)}
    return replace(
        segment,
        graph=network,
        operators=tuple(renewed[o] for o in segment.operators),
        inputs=tuple(tensors[t.name] for t in segment.inputs),
        outputs=tuple(tensors[t.name] for t in segment.outputs),
        relax=partial(region_as_relax, divided, segment),
    )


class _Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
