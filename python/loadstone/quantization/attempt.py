# SPDX-License-Identifier: Apache-2.0
"""One attempt to quantize a network, and the better of two: as it is, or with equalized channels.

In:   a runner, samples, options; the log that names the passes of an attempt.
Out:  `Attempt`: a network with its calibration and plan; `repaired`, which chooses.
Next: pipeline.py leaves sensitive layers on the host, and writes the plan as QDQ.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from loadstone.passes.log import PassLog, PassRun
from loadstone.quantization.calibrate import Calibration, calibrate
from loadstone.quantization.compare import Comparison, Pair, compare_all
from loadstone.quantization.equalize import equalize, scalable
from loadstone.quantization.network import Network
from loadstone.quantization.options import Options
from loadstone.quantization.plan import Plan, make_plan
from loadstone.quantization.planned import real_settings, settings
from loadstone.quantization.rounding import LayerInputs, correct_biases, round_weights
from loadstone.quantization.samples import Samples
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from loadstone.quantization.texts import (
    biases_text,
    calibration_text,
    plan_text,
    rounded_text,
    weights_text,
)
from loadstone.quantization.verify import (
    verify_calibration,
    verify_corrected,
    verify_equalized,
    verify_rounded,
    verify_scales,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["Attempt", "bounded", "repaired"]

#: The number of samples from which the covariances for rounding are estimated.
MOMENT_SAMPLES = 256


class Attempt:
    """A network with its calibration and plan; `equalized` gives another.

    log: of its passes. growing: the tensors that `equalized` may scale; an attempt without them is
    the last. own_runs: the passes that only its own log names.
    """

    own_runs: tuple[PassRun, ...] = ()

    def __init__(
        self,
        runner: FakeQuantizedRunner,
        network: Network,
        samples: Samples,
        options: Options,
        log: PassLog,
        growing: Collection[Var] = (),
    ) -> None:
        self.runner, self.network, self.samples, self.options = runner, network, samples, options
        self.log = log
        repairs = options.compensate or options.correct
        inputs = LayerInputs(runner.network, MOMENT_SAMPLES if repairs else 0)
        self.calibration = log.run(
            "calibrate",
            lambda real: calibrate(
                runner, samples, real, channels_of=growing, watch=inputs.update, show=options.show
            ),
            real_settings(network),
            verify=lambda _, made: verify_calibration(network, made),
            show=partial(calibration_text, network),
        )
        self.plan = log.run(
            "scales",
            self._scales,
            self.calibration,
            verify=lambda _, made: verify_scales(network, made),
            show=partial(plan_text, network),
        )
        if options.compensate:
            self.plan = log.run(
                "round_weights",
                lambda plan: round_weights(network, plan, inputs.moments),
                self.plan,
                verify=partial(verify_rounded, network),
                show=partial(rounded_text, network),
            )
        if options.correct:
            self.plan = log.run(
                "correct_biases",
                lambda plan: correct_biases(network, plan, inputs.moments),
                self.plan,
                verify=partial(verify_corrected, network),
                show=partial(biases_text, network),
            )

    def _scales(self, calibration: Calibration) -> Plan:
        plan = make_plan(
            self.network,
            calibration.histograms,
            SCHEMES[self.options.scheme],
            self.options.method,
            per_channel=self.options.per_channel,
        )
        return replace(plan, half_up=self.options.half_up)

    def equalized(self) -> Attempt:
        """With channels of similar range."""
        log = PassLog("equalized", texts=self.log.texts)
        network = log.run(
            "equalize",
            lambda before: equalize(before, self.calibration),
            self.network,
            verify=partial(verify_equalized, self.runner, self.samples),
            show=weights_text,
        )
        other = Attempt(self.runner, network, self.samples, self.options, log)
        other.own_runs = tuple(log.runs)
        return other


def repaired(
    runner: FakeQuantizedRunner, samples: Samples, few: Samples, options: Options, log: PassLog
) -> tuple[Attempt, Comparison | None, list[str]]:
    """The better of two attempts, its cost if that was measured, and the steps that were taken.
    log: of the network's passes; the attempt that equalizes has its own."""
    network, comparison, steps = runner.network, None, []
    growing = scalable(network) if options.equalize else []
    chosen = Attempt(runner, network, samples, options, log, growing)
    if options.equalize:
        other = chosen.equalized()
        gain, comparisons = _compared(runner, chosen, other, few, show=options.show)
        comparison = comparisons[gain > 0]
        if gain > 0:
            chosen = other
            steps.append(f"equalized channels ({gain:+.1f} dB)")
    if options.compensate:
        steps.append("compensated rounding")
    if options.correct:
        steps.append("corrected biases")
    return chosen, comparison, steps


def _compared(
    runner: FakeQuantizedRunner, one: Attempt, other: Attempt, samples: Samples, *, show: bool
) -> tuple[float, list[Comparison]]:
    """By how many decibels the second attempt is better: the mean signal-to-noise ratio of the
    tensors that the device hands to the host. Also the cost of each attempt, compared with its own
    float network."""
    every, results = tuple(runner.network.groups), one.network.results()
    real, wide = (real_settings(attempt.network) for attempt in (one, other))
    first, second = (settings(attempt.network, attempt.plan) for attempt in (one, other))
    pairs = [Pair(real, first, every), Pair(real, second, results), Pair(wide, second, every)]
    found = compare_all(runner, pairs, samples, show=show)
    before, after = (
        float(np.mean([bounded(comparison.tensors[result]) for result in results]))
        for comparison in found[:2]
    )
    return after - before, [found[0], found[2]]


def bounded(ratio: float) -> float:
    """Decibels limited to 200, so that a mean exists: an exact tensor, and one that is always zero,
    count as 200."""
    return 200.0 if math.isnan(ratio) else min(ratio, 200.0)
