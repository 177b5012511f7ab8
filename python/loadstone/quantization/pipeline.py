# SPDX-License-Identifier: Apache-2.0
"""Quantization: a float network to int8, and its cost in accuracy.

In:   a float module in canonical form, samples.
Out:  Quantized: a QDQ module, as the front ends return for an int8 model, and a report.
Next: partition/eager.py, or export_onnx.py for ONNX Runtime.

    fold.py         constants: batch normalization, pads              a Relax pass
    read_network.py layers (network.py), and which tensors share a scale
    simulate.py     the network with scales as arguments              (executable.py: fast on this
                        CPU)
    calibrate.py    statistics of every tensor                        (samples.py, statistics.py)
    attempt.py      the three below, and one of two networks
    equalize.py     channels of similar range                         a repair
    plan.py         every scale, by a method and a scheme             (scales.py)
    rounding.py     weights that err together less; biases            two repairs
    mixed.py        sensitive layers stay on the host                 a repair; wide_plan.py: in
                        int16
    planned.py      a plan as simulate.py takes it
    rewrite.py      float to QDQ                                      a Relax pass
    compare.py, report.py, export_onnx.py

`loadstone.quantize(model, samples)` does all of it (compiler.quantize).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError, UnsupportedError
from loadstone.files import JsonObject, write_whole
from loadstone.numerics import Array
from loadstone.passes.log import PassLog, PassRun, script
from loadstone.quantization.options import DYNAMIC, Options, checked

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from loadstone.quantization.attempt import Attempt
    from loadstone.quantization.mixed import Sensitivities
    from loadstone.quantization.plan import Plan
    from loadstone.quantization.samples import Arrays, Samples
    from loadstone.quantization.simulate import FakeQuantizedRunner
    from loadstone.relax.types import Expr, IRModule

__all__ = ["Quantized", "prepare", "quantize_module", "quantize_prepared"]

#: The largest number of samples by which choices are compared and the report is made.
COMPARED_SAMPLES = 32


@dataclass(frozen=True, eq=False, repr=False)
class Quantized:
    """module: QDQ in canonical form. float_module: folded. report: see report.py. outputs: names
    for the exported file. name: of the model. runs: the passes that produced it."""

    module: IRModule
    float_module: IRModule
    report: JsonObject
    outputs: tuple[str, ...]
    name: str = "model"
    runs: tuple[PassRun, ...] = ()

    def __repr__(self) -> str:
        outputs = ", ".join(self.outputs)
        return f"<quantized network, {self.report['scheme']}: outputs {outputs}>"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names, in the order of samples."""
        return tuple(str(entry.name) for entry in self.module["main"].params)

    def save(self, path: str | Path) -> None:
        """Writes standard QDQ ONNX: inputs and outputs as the float model has them."""
        from loadstone.quantization.export_onnx import export_onnx

        metadata = {"loadstone.scheme": str(self.report["scheme"])}
        write_whole(path, export_onnx(self.module, self.outputs, metadata).SerializeToString())


class Measured(TypedDict, total=False):
    """How the loss is measured, and what the exported file says: see `quantize_prepared`."""

    labels: Array | None
    outputs: Sequence[str]
    where: str


def quantize_module(
    module: IRModule,
    arrays: Arrays,
    options: Options | None = None,
    log: PassLog | None = None,
    **others: Unpack[Measured],
) -> Quantized:
    """Quantizes a float module in canonical form; see `quantize_prepared`. log: records its
    passes."""
    options = checked(options or Options())
    if options.scheme == DYNAMIC:
        return _dynamic(module, arrays, options, log or PassLog(), others)
    return quantize_prepared(prepare(module, log), arrays, options, **others)


def _dynamic(
    module: IRModule,
    arrays: Arrays,
    options: Options,
    log: PassLog,
    others: Measured,
) -> Quantized:
    """Nothing is calibrated: samples measure the loss. others: as
    quantize_prepared takes them."""
    from loadstone.quantization.accuracy import faults_of_samples
    from loadstone.quantization.dynamic import dynamic_module, dynamic_report
    from loadstone.quantization.progress import phase
    from loadstone.quantization.samples import samples_from
    from loadstone.relax.compat import result

    dynamic = dynamic_module(
        module, log, per_channel=options.per_channel, weights4=options.weights4 == "all"
    )
    real, made, layers = dynamic.real, dynamic.made, len(dynamic.errors)
    parameters, results = real["main"].params[:], result(real["main"])
    samples = samples_from(arrays, parameters, others.get("where", "samples"))
    labels = _labels(others.get("labels"), len(samples), results[0])
    samples = replace(samples, labels=labels)
    steps = [f"a scale for each row of {layers} dense layers, found when the network runs"]
    with phase("measuring the loss", options.show):
        few = samples if samples.labels is not None else samples.first(COMPARED_SAMPLES)
        contents = dynamic_report(dynamic, few, steps)
    names = [str(entry.name) for entry in parameters]
    contents["sample_faults"] = faults_of_samples(samples, names)
    whole = tuple(others.get("outputs", ())) or tuple(str(entry.name) for entry in results)
    return Quantized(made, real, contents, whole, runs=tuple(log.runs))


def prepare(module: IRModule, log: PassLog | None = None) -> FakeQuantizedRunner:
    """Folds a float module in canonical form and reads its layers; returns a runner that compiles
    the network once for any number of trials. log: records its passes.

    Raises ModelError where no tensor can become int8, where one is int8 already, and for weights
    that are not finite (fold.py).
    """
    from loadstone.quantization.fold import fold
    from loadstone.quantization.read_network import read_network
    from loadstone.quantization.simulate import FakeQuantizedRunner
    from loadstone.relax.compat import bindings, is_call
    from loadstone.relax.interface import verify_interface

    log = log or PassLog()
    folded = log.run("fold", fold, module, verify=verify_interface, show=script)
    network = read_network(folded)
    for variable, call in bindings(network.function):
        if is_call(call, "call_tir"):
            kind = call.args[0].name_hint
            raise UnsupportedError(
                f'"{variable.name}" is computed by {kind}, an operator that Relax does not '
                "have: not calibrated"
            )
        if is_call(call, "quantize", "dequantize"):
            raise ModelError(f'"{variable.name}" is quantized already: compile the model as it is')
    if not network.weighted or not network.quantized:
        raise ModelError(
            "the network has no convolution or dense layer with constant weights: there is "
            "nothing to quantize"
        )
    return FakeQuantizedRunner(network, log)


def quantize_prepared(
    runner: FakeQuantizedRunner,
    arrays: Arrays,
    options: Options | None = None,
    labels: Array | None = None,
    outputs: Sequence[str] = (),
    *,
    where: str = "samples",
) -> Quantized:
    """Quantizes the result of `prepare`.

    arrays: samples, `in0`, `in1` ..., each (samples, ...) with the rest of the shape as samples.py
        requires. labels: (samples,), a class for each.
    outputs: names for the exported file. where: the prefix of messages about the samples.
    Raises ModelError for samples and labels that do not fit, and for a network that overflows on
    them.
    """
    from threadpoolctl import threadpool_limits

    from loadstone.quantization.accuracy import faults_of_samples
    from loadstone.quantization.apart import ranges_on, with_own_scales
    from loadstone.quantization.attempt import repaired
    from loadstone.quantization.compare import compare
    from loadstone.quantization.mixed import host_cycles, measure_sensitivities
    from loadstone.quantization.planned import real_settings, settings
    from loadstone.quantization.progress import phase
    from loadstone.quantization.report import report
    from loadstone.quantization.rewrite import rewrite
    from loadstone.quantization.samples import samples_from
    from loadstone.quantization.scales import SCHEMES
    from loadstone.quantization.texts import host_text
    from loadstone.quantization.verify import verify_host
    from loadstone.relax.compat import tvm
    from loadstone.relax.interface import verify_interface

    options = checked(options or Options())
    network, log = runner.network, runner.log.continued()
    samples = samples_from(arrays, network.parameters, where)
    samples = replace(samples, labels=_labels(labels, len(samples), network.outputs[0]))
    few = samples.first(COMPARED_SAMPLES)

    steps = [f"calibrated on {len(samples)} samples"]
    with phase("compiling the float network", options.show):
        runner.compile()
    if not SCHEMES[options.scheme].powers_of_two:  # which are chosen for what needs no product
        ranges = ranges_on(runner, samples)
        runner = runner.with_network(with_own_scales(network, ranges))
    # NumPy's own threads spin while they wait, on the processor that runs the network.
    with threadpool_limits(1, "blas"):
        chosen, comparison, repairs = repaired(runner, samples, few, options, log)
    network, plan = chosen.network, chosen.plan
    steps += repairs

    sensitivities, gain_db = None, None
    mixed = bool(options.host_cycles or options.keep_float or options.keep_16)
    if options.sensitivity or mixed:
        sensitivities = measure_sensitivities(
            runner,
            network,
            plan,
            samples.first(4),
            options.cost or host_cycles,
            show=options.show,
        )
    if sensitivities is not None and mixed:
        plan, gain_db = log.run(
            "keep_on_host",
            partial(_mixed, runner, chosen, few),
            sensitivities,
            verify=lambda _, made: verify_host(chosen.network, chosen.plan, made[0]),
            show=lambda made: host_text(made[0]),
        )
        steps.append(f"left {len(plan.host)} layers on the host ({gain_db:+.1f} dB)")
    if comparison is None or plan is not chosen.plan or samples.labels is not None:
        comparison = compare(
            runner,
            settings(network, plan),
            samples if samples.labels is not None else few,
            real=real_settings(network),
            show=options.show,
        )
    contents = report(network, plan, chosen.calibration, comparison, sensitivities, steps)
    contents["host_gain_db"] = gain_db
    contents["host_of"] = options.host
    contents["sample_faults"] = faults_of_samples(
        samples, list(map(network.name, network.parameters))
    )
    names = tuple(outputs) or tuple(map(network.name, network.outputs))
    float_module = tvm.IRModule({"main": runner.network.function})
    module = log.run(
        "rewrite",
        lambda _: rewrite(network, plan),
        float_module,
        verify=verify_interface,
        show=script,
    )
    return Quantized(module, float_module, contents, names, runs=(*log.runs, *chosen.own_runs))


def _mixed(
    runner: FakeQuantizedRunner, chosen: Attempt, few: Samples, sensitivities: Sensitivities
) -> tuple[Plan, float]:
    """The plan with layers on the host, as the options require, and the gain of the worst output in
    decibels."""
    from loadstone.quantization.attempt import bounded
    from loadstone.quantization.compare import compare
    from loadstone.quantization.mixed import with_good_outputs, with_host_layers
    from loadstone.quantization.planned import real_settings, settings
    from loadstone.quantization.wide_plan import WIDE_BITS

    network, options = chosen.network, chosen.options
    plan = replace(chosen.plan, host_bits=WIDE_BITS if options.keep_16 else chosen.plan.host_bits)

    def measured(plan: Plan) -> float:
        real = real_settings(network)
        found = compare(runner, settings(network, plan), few, real=real, show=options.show)
        return min(map(bounded, found.outputs), default=math.inf)

    budget = options.host_cycles or math.inf
    if options.keep_float or options.keep_16:
        mixed = with_good_outputs(network, plan, sensitivities, measured, budget)
    else:
        mixed = with_host_layers(network, plan, sensitivities, options.host_cycles)
    return mixed, round(measured(mixed) - measured(plan), 2) if mixed.host else 0.0


def _labels(labels: Array | None, count: int, output: Expr) -> NDArray[np.int64] | None:
    from loadstone.relax.compat import shape

    if labels is None:
        return None
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" or array.reshape(-1).shape != (count,):
        raise ModelError(
            f"labels have shape {list(array.shape)} and type {array.dtype}: one integer for "
            f"each of the {count} samples is needed"
        )
    classes = int(np.prod(shape(output) or ()))
    wrong = np.flatnonzero((array.reshape(-1) < 0) | (array.reshape(-1) >= classes))
    if wrong.size:
        raise ModelError(
            f"label {array.reshape(-1)[wrong[0]]} of sample {wrong[0]}: the first output has "
            f"classes 0 to {classes - 1}"
        )
    return array.reshape(-1).astype(np.int64)
