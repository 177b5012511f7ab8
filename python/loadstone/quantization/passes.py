# SPDX-License-Identifier: Apache-2.0
"""The quantizer's steps as Relax module passes: alone, or combined in a tvm.transform.Sequential.

In:   a float module in canonical form; samples as `samples_from` takes them; Options.
Out:  passes, IRModule -> IRModule.
Next: `loadstone.quantize` does the same with one calibration, and keeps the repairs that help.

    Sequential([equalize_channels(images), to_qdq(images, Options(equalize=False))])(module)

    fold_constants       float -> float   batch normalization and constants into convolutions and
                         dense layers
    equalize_channels    float -> float   channels of similar range
    round_weights        float -> float   weights are values that int8 has, rounded so that their
                         errors make up for each other
    correct_biases       float -> float   biases take off the mean error of weights that to_qdq will
                         round to nearest
    to_qdq               float -> QDQ
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from loadstone.quantization import equalize as equalization
from loadstone.quantization import rounding
from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.fold import fold
from loadstone.quantization.network import Network
from loadstone.quantization.options import Options, checked
from loadstone.quantization.pipeline import prepare, quantize_module
from loadstone.quantization.plan import Plan, make_plan, real_weights
from loadstone.quantization.rewrite import write_weights
from loadstone.quantization.samples import samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.relax.compat import tvm

if TYPE_CHECKING:
    from loadstone.quantization.moments import Moments
    from loadstone.quantization.network import Layer
    from loadstone.quantization.samples import Arrays
    from loadstone.relax.types import IRModule, Pass

__all__ = ["correct_biases", "equalize_channels", "fold_constants", "round_weights", "to_qdq"]


def fold_constants() -> Pass:
    """See fold.py."""
    return _pass("FoldConstants", fold)


def equalize_channels(samples: Arrays, strength: float = equalization.STRENGTH) -> Pass:
    """See equalize.py: the same function on the samples, up to float rounding."""

    def equalized(module: IRModule) -> IRModule:
        runner = prepare(module)
        calibration = calibrate(runner, samples_from(samples, runner.network.parameters))
        return write_weights(equalization.equalize(runner.network, calibration, strength))

    return _pass("EqualizeChannels", equalized)


def round_weights(samples: Arrays, options: Options | None = None) -> Pass:
    """See rounding.py: real weights, each a multiple of its channel's scale."""

    def rounded(network: Network, plan: Plan, moments: Mapping[str, Moments]) -> Network:
        found = rounding.round_weights(network, plan, moments)
        return replace(network, layers=tuple(_weights(layer, found) for layer in network.layers))

    return _pass("RoundWeights", _repaired(samples, options, rounded))


def correct_biases(samples: Arrays, options: Options | None = None) -> Pass:
    """See rounding.py: the weights stay, and the biases compensate their rounding to nearest."""

    def corrected(network: Network, plan: Plan, moments: Mapping[str, Moments]) -> Network:
        biases = rounding.correct_biases(network, plan, moments).biases
        return replace(
            network,
            layers=tuple(
                replace(layer, bias=biases.get(layer.name, layer.bias)) for layer in network.layers
            ),
        )

    return _pass("CorrectBiases", _repaired(samples, options, corrected))


def to_qdq(samples: Arrays, options: Options | None = None) -> Pass:
    """All steps of `loadstone.quantize`, with the repairs that `options` name."""
    return _pass("ToQDQ", lambda module: quantize_module(module, samples, options).module)


def _weights(layer: Layer, plan: Plan) -> Layer:
    return (
        replace(layer, weights=real_weights(layer, plan)) if layer.name in plan.rounded else layer
    )


def _repaired(
    samples: Arrays,
    options: Options | None,
    repair: Callable[[Network, Plan, Mapping[str, Moments]], Network],
) -> Callable[[IRModule], IRModule]:
    chosen = checked(options or Options())

    def run(module: IRModule) -> IRModule:
        runner = prepare(module)
        taken = samples_from(samples, runner.network.parameters)
        histograms = calibrate(runner, taken).histograms
        plan = make_plan(
            runner.network,
            histograms,
            SCHEMES[chosen.scheme],
            chosen.method,
            per_channel=chosen.per_channel,
        )
        return write_weights(repair(runner.network, plan, rounding.measure_moments(runner, taken)))

    return run


def _pass(name: str, run: Callable[[IRModule], IRModule]) -> Pass:
    return tvm.transform.module_pass(lambda module, _: run(module), opt_level=0, name=name)
