# SPDX-License-Identifier: Apache-2.0
"""compile() takes a model file to an artifact. A reader of the compiler begins here.

In:   a model file (or a Relax module in canonical form), and a target.
Out:  Compiled: the artifact, the place of each operator with the reason, and figures.
Next: `Compiled.save` writes it; runtime/ runs it; runtime/device.py runs it from Python.

    model file -- frontend --> Relax, float -- quantize --> Relax, QDQ (an int8 model is one)
               -- a partitioner divides it --> graph and segments -- back ends lower --> regions
               -- deploy --> memory plan, programs, host steps = artifact
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypedDict

from loadstone.analysis.compiled import Compiled
from loadstone.artifact.deploy import Contents, Deployment
from loadstone.artifact.entries import with_others
from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.artifact.states import with_states
from loadstone.backend.plugins import Registry
from loadstone.backend.region import LoweredRegion
from loadstone.backend.request import CompileRequest
from loadstone.backend.scope import register_tag
from loadstone.backend.target import Target, resolve
from loadstone.backend.tuned_file import check_all_used, tuned_choices
from loadstone.errors import ConfigError, ModelError, check_arguments, naming
from loadstone.frontend import Canonical, import_model, load
from loadstone.frontend.gguf_entries import entry_readings
from loadstone.frontend.gguf_words import words_beside
from loadstone.frontend.reading import WHOLE, Reading, own_states, weight_errors
from loadstone.numerics import Array
from loadstone.partition.cost.choice import CostPartitioner
from loadstone.partition.cost.hosts import stated_host
from loadstone.partition.lowering import Clock, LoweredPartition
from loadstone.partition.partitioner import EagerPartitioner, Partitioner
from loadstone.partition.prepare import relax_passed
from loadstone.passes.dump import Dump
from loadstone.passes.log import PassLog, PassRun, stopped
from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import Quantized, quantize_module
from loadstone.quantization.progress import phase
from loadstone.runtime.acceptance import check_accepted

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's own from Python 3.11 on

    from loadstone.backend.target import TargetSource
    from loadstone.frontend import Model
    from loadstone.quantization.samples import Arrays

__all__ = ["STRATEGIES", "CompileOptions", "Compiled", "compile", "quantize"]

#: The methods to divide a network among back ends and host.
STRATEGIES = ("eager", "cost")
#: Arguments of quantize() besides the fields of Options.
_QUANTIZE = ("samples", "data", "labels", "reading")
_ONE_THREAD = RLock()  # TVM's builders keep one stack for all


@dataclass(frozen=True)
class CompileOptions:
    """The options of compile(). target: anything that target.resolve accepts, such as a device's
    name or file.

    dump: a folder for what every pass makes. tuned: a file of `loadstone tune`, for schedules.
    plugins: back ends besides the built-in ones (plugins.load_plugins); None: the installed ones.
    samples: of a float model, to quantize it with, as `quantize` takes them; options: its other
        arguments. Without a scheme, powers of two where a back end can only shift.
    rounding: "exact", the framework's integers; "near", one level off at most, proven, where that
        takes fewer cycles and the device has no RQ; on a plug-in's device, what it states.
    as_float: a float model without samples is compiled as it is, for the host alone.
    rows: of a GGUF file: how many tokens a run of its entry `chunk` takes, beside the entry `next`,
        which takes one. None: 16, or as many as the window has; 1: there is no `chunk`.
    strategy: "eager", to the first back end that takes it; "cost", to where all takes least.
    costs: a JSON file, read if it is there, written with what was new: same file, same artifact.
    host: NAME@MHZ, whose costs the host's steps have; None: they are timed here, as C.
    reading: sizes that the model's file leaves open, and which part of it is wanted.
    states: inputs, each with the output that is its value in the next run (artifact/states.py).
    switch_cycles: within so many the device can turn to another network; None: after a run's end.
    """

    target: Any
    dump: str | Path | Dump | None = None
    plugins: Registry | None = None
    samples: Any = None
    options: Mapping[str, Any] | None = None
    strategy: str = "eager"
    costs: str | Path | None = None
    host: str | None = None
    reading: Reading = WHOLE
    states: Mapping[str, str] = field(default_factory=dict)
    tuned: str | Path | None = None
    rounding: str = "exact"
    as_float: bool = False
    rows: int | None = None
    switch_cycles: int | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"compile: strategy {self.strategy!r} is not one of {', '.join(STRATEGIES)}"
            )
        if self.rows is not None and self.rows > 1 and self.strategy != "eager":
            raise ConfigError(
                f"compile: {self.rows} rows are another entry, which strategy {self.strategy!r} "
                "does not divide: use rows=1, or the strategy 'eager'"
            )


class _Choices(TypedDict, total=False):
    """Fields of CompileOptions that compile() takes by name alone."""

    samples: Any
    as_float: bool
    options: Mapping[str, Any] | None
    strategy: str
    costs: str | Path | None
    host: str | None
    reading: Reading
    states: Mapping[str, str]
    tuned: str | Path | None
    rounding: str
    rows: int | None
    switch_cycles: int | None


def quantize(
    model: Model,
    samples: Arrays | None = None,
    *,
    labels: Array | None = None,
    show: bool = False,
    where: str = "samples",
    reading: Reading = WHOLE,
    **options: Any,
) -> Quantized:
    """Quantizes a float model: a file, or a Relax module. The result can be passed to `compile`; it
    has `save` (QDQ ONNX) and `report`.

    samples: an array (samples, ...) of real numbers, several of them in the order of the inputs, or
        a mapping by the inputs' names or in0, in1 ...; after the first axis each has the shape of
        the model's input. Lists of numbers become arrays, a list of samples belongs to the only
        input, and a path is an .npz file. ImageFolder(path, pixels): images. data: another name of
        samples.
    labels: (samples,), a class per sample: the report then has the accuracy before and after.
    reading: sizes that the model's file leaves open, and the part of it to read.
    options: fields of quantization.pipeline.Options.
    Raises ModelError for a model or samples that cannot be used.
    """
    check_arguments("quantize", options, [*_QUANTIZE, *_names(Options)])
    given = _samples(samples, options.pop("data", None))
    if given is None:
        raise ModelError(
            f"{_name(model)}: quantize needs a hundred samples or so of what the network will "
            "see: quantize(model, samples), an array (samples, ...) for each input"
        )
    with _ONE_THREAD:
        from loadstone.frontend.names import output_names

        with phase(f"reading {_name(model)}", show):
            imported = import_model(model, reading)
            canonical = load(model if isinstance(model, Canonical) else imported)
        return replace(
            quantize_module(
                canonical,
                given,
                Options(**options, show=show),
                PassLog(texts=True),  # of modules that the result has in any case
                labels=labels,
                outputs=output_names(imported["main"]),
                where=where,
            ),
            name=_name(model),
        )


def _names(options: type[CompileOptions] | type[Options]) -> list[str]:
    return [entry.name for entry in fields(options)]


def _samples(samples: Any, data: Any) -> Any:
    """The argument that was given. Raises ConfigError for both."""
    if samples is not None and data is not None:
        raise ConfigError("samples and data are two names of one argument: give one of them")
    return data if samples is None else samples


def _name(model: Model | Quantized) -> str:
    if isinstance(model, Quantized):
        return model.name
    return Path(model).stem if isinstance(model, str | Path) else "model"


def compile(  # noqa: A001
    model: Model | Quantized,
    target: TargetSource,
    dump: str | Path | Dump | None = None,
    plugins: Registry | None = None,
    data: Any = None,
    **choices: Unpack[_Choices],
) -> Compiled:
    """Compiles `model`, or the result of `quantize`, for `target`. The arguments are the fields of
    CompileOptions; `data` is another name of `samples`. Raises ModelError for a model that cannot
    be read; ConfigError for device, costs or schedules, and for a float model without samples of
    which no operator runs on a device."""
    check_arguments("compile", choices, _names(CompileOptions))
    further = choices.get("options") or {}
    check_arguments("compile: options", further, ["labels", "where", *_names(Options)])
    choices["samples"] = _samples(choices.get("samples"), data)
    options = CompileOptions(target, dump, plugins, **choices)
    with _ONE_THREAD:
        compiled = compile_model(model, options)
    if compiled.is_float and not options.as_float:
        raise ConfigError(
            f"{_name(model)}: a float model, of which nothing runs on {compiled.device.name}: "
            "quantize it with a hundred samples or so (--data SAMPLES.npz with inputs in0, in1 "
            "...; in Python samples=...), or compile it for the host alone (--float; as_float=True)"
        )
    return compiled


def compile_model(model: Model | Quantized, options: CompileOptions) -> Compiled:
    """Runs the stages, in order. If one fails, what its passes made until then is dumped."""
    writer = options.dump if isinstance(options.dump, Dump) else Dump(options.dump)
    made: list[PassRun] = []
    try:
        return _by_stages(model, options, writer, made)
    except Exception as error:
        writer.write_stopped([*made, *(run for run in stopped(error) if run not in made)])
        raise


def _by_stages(
    model: Model | Quantized, options: CompileOptions, writer: Dump, made: list[PassRun]
) -> Compiled:
    """made: gets the passes that ran, stage by stage."""
    clock = Clock()
    target = resolve(options.target, options.plugins)
    schedules = tuned_choices(options.tuned, target.backends)
    target = target.asked(CompileRequest(options.rounding, schedules, options.switch_cycles))
    if target.spec.tag:
        register_tag(target.spec.tag, target.spec)
    with clock("import TVM"):
        import loadstone.relax.compat  # noqa: F401
    log = PassLog(texts=writer.wanted)
    with clock("frontend"):
        source = model.module if isinstance(model, Quantized) else model
        readings = _readings(source, options)
        module = load(source, next(iter(readings.values())), log)
        own, errors = own_states(module), weight_errors(module)
    quantized = None
    if options.samples is not None:
        with clock("quantize"):
            made += log.runs
            given = _quantize_options(options, target)
            quantized = quantize(Canonical(module), options.samples, **given)
            made += quantized.runs
            log = PassLog("quantized", texts=writer.wanted)
            module = load(quantized.module, log=log)
    made += log.runs
    log = PassLog(texts=writer.wanted)
    with clock("partition"):
        module = relax_passed(module, target.backends, log)
    name = _name(model)
    contents = Contents()
    partitioner = _partitioner(module, name, target, options, log, contents)
    with naming(name):
        lowered = partitioner.run(clock)
        made += lowered.runs
        log = PassLog(texts=writer.wanted)
        artifact = log.run(
            "steps",
            lambda deployed: with_states(deployed, options.states, own),
            lowered.deployment.artifact,
            show=_steps_text,
        )
        made += log.runs
        writer.write(made)
        if len(readings) > 1:
            whole = with_others(
                replace(lowered.deployment, artifact=artifact),
                list(readings),
                lambda name, before: _further(
                    source, options, target, clock, readings[name], before
                ),
                contents,
            )
            lowered, artifact = replace(lowered, deployment=whole), whole.artifact
        with clock("accept"):
            check_accepted(artifact)
        compiled = replace(
            _compiled(lowered, target, partitioner, clock, artifact),
            quantized=quantized,
            passes=tuple(made),
            words=words_beside(model),
            weight_errors=errors,
        )
    if schedules is not None and options.tuned is not None:
        check_all_used(options.tuned, schedules, name)
    return compiled


def _quantize_options(options: CompileOptions, target: Target) -> dict[str, Any]:
    """The options that were given. Where they are missing: a scheme that the target's back ends
    support, and one scale for a layer's weights where they support no more."""
    given, best = dict(options.options or {}), target.scheme()  # refused also where one was given
    each = target.per_channel and given.get("per_channel", True)
    return {**given, "scheme": given.get("scheme") or best, "per_channel": each}


def _partitioner(
    module: Any,
    name: str,
    target: Target,
    options: CompileOptions,
    log: PassLog,
    contents: Contents,
) -> Partitioner:
    if options.strategy == "cost":
        host = None if options.host is None else stated_host(options.host)
        return CostPartitioner(module, name, target, options.costs, log, host)
    return EagerPartitioner(module, name, target, log, contents)


def _readings(model: object, options: CompileOptions) -> dict[str, Reading]:
    """How the model is read for each entry of the artifact, by name; one for most models."""
    alone = options.samples is not None or options.strategy != "eager"
    return entry_readings(model, options.reading, 1 if alone else options.rows)


def _further(
    model: Model,
    options: CompileOptions,
    target: Target,
    clock: Clock,
    reading: Reading,
    contents: Contents,
) -> Deployment:
    """One more entry. contents: what those before it have brought."""
    log = PassLog()
    with clock("frontend"):
        module = load(model, reading, log)
        own = own_states(module)
    with clock("partition"):
        module = relax_passed(module, target.backends, log)
    made = EagerPartitioner(module, _name(model), target, log, contents).run(clock).deployment
    return replace(made, artifact=with_states(made.artifact, options.states, own))


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


def _steps_text(artifact: Artifact) -> str:
    return "\n".join(map(_described, artifact.steps)) + "\n"


def _described(step: ProgramStep | HostStep) -> str:
    """One line for each step, in a dump; `loadstone disasm` shows the instructions."""
    if not isinstance(step, HostStep):
        return (
            f"device {step.name}: {len(step)} instructions for "
            f"{', '.join(dict.fromkeys(layer.name for layer in step.layers))}"
        )
    parameters = " ".join(f"{name}={value}" for name, value in step.parameters.items())
    return (
        f"host {step.name}: {step.opcode.name.lower()} {step.inputs} -> {step.outputs} {parameters}"
    ).rstrip()
