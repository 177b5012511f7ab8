# SPDX-License-Identifier: Apache-2.0
"""The expected value of every layer of an artifact, by the reference it is compared with.

In:   the name of the reference: a model's file, another artifact, a device, `reference`; or a model
      in memory; one run's inputs.
Out:  an Expected: the value that a tap should have.
Next: compare.py.

Every tensor of a quantized model is known to the last bit. An integer artifact only approximates
the tensors of a float model: each layer is then measured in decibels, with its integers as real
numbers. Equalization multiplies channels, so each channel of a tensor inside the network is
compared up to a factor; a channel with too few elements to estimate the factor is not compared.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadstone.analysis.compare import Expected, from_tensors, tells_factors
from loadstone.analysis.framework import framework_expects
from loadstone.analysis.names import plain_name
from loadstone.analysis.taps import Tap, meant, taps, values
from loadstone.artifact.format import Artifact, DataType
from loadstone.errors import ConfigError, ModelError
from loadstone.numerics import Array
from loadstone.runtime import device as devices

if TYPE_CHECKING:
    from loadstone.frontend import Model
    from loadstone.relax.types import IRModule

__all__ = ["MODELS", "Against", "check_inputs", "expected_from", "is_file_of_model"]

#: A name (see `expected_from`), or a model in memory.
Against: TypeAlias = "str | Path | Model"
#: How files of models end.
MODELS = (".tflite", ".onnx", ".pt2")


def is_file_of_model(against: Against) -> bool:
    """Whether it is a model's file by its name."""
    return isinstance(against, str | Path) and Path(against).suffix.lower() in MODELS


def expected_from(
    against: Against,
    artifact: Artifact,
    inputs: Sequence[Array],
    *,
    framework: bool = False,
    trust: bool = False,
) -> Expected:
    """The expected value of each layer.

    against: a model's file or a model in memory; an .lds file; `reference`, the meaning of the
        instructions; otherwise a device. inputs: of one run, in the shapes of the artifact's
        inputs.
    framework: LiteRT or ONNX Runtime computes the model's file.
    Raises ModelError for a model that does not belong to this artifact, ConfigError for an unknown
    name.
    """
    if framework:
        if not is_file_of_model(against):
            raise ConfigError(f"--framework runs a model's file, and --against is {against}")
        return framework_expects(str(against), inputs, artifact.samples)
    if is_file_of_model(against) or not isinstance(against, str | Path):
        return _model_expects(against, artifact, inputs)
    if str(against) == "reference":
        with devices.open("sim") as opened:
            return _written(meant(artifact, opened, inputs, trust=trust), artifact)
    other, spec = artifact, str(against)
    if spec.endswith(".lds"):
        other, spec = Artifact.load(against).only(), "sim"
        if [other.tensors[i].shape for i in other.inputs] != [a.shape for a in inputs]:
            raise ModelError(f"{against} has other inputs than {artifact.name}")
    with devices.open(spec) as opened:
        got = list(values(other, opened, inputs, taps(other), trust=trust))
    return _written(got, artifact)


def _written(got: Sequence[tuple[Tap, Array]], artifact: Artifact) -> Expected:
    """What the taps of the same or of another artifact of the network hold, by name, type, and how
    often it was written before: some steps of the host write their layer's scratch in turn."""
    there: dict[tuple[str, DataType], list[Array]] = defaultdict(list)
    for tap, value in got:
        there[tap.name, tap.view.dtype].append(value)
    # On the device a tensor of real numbers is bfloat16; on the host it is float32, by the same
    # name.
    named = {tap.name: there[tap.name, tap.view.dtype] for tap, _ in got}
    steps: dict[tuple[str, DataType], list[int]] = defaultdict(list)
    for tap in taps(artifact):
        steps[tap.name, tap.view.dtype].append(tap.step)

    def expected(tap: Tap) -> Array | None:
        key = (tap.name, tap.view.dtype)
        every = there.get(key, named.get(tap.name, []))
        if len(every) == len(steps[key]):
            value = every[steps[key].index(tap.step)]
        elif every and all(np.array_equal(one, every[-1]) for one in every):
            value = every[-1]
        else:
            return None
        if _is_form(tap) and value.size != math.prod(tap.view.shape):
            return None
        return from_tensors({tap.name: value})(tap)

    return expected


def _is_form(tap: Tap) -> bool:
    """Whether it is a tensor as one layer of one device reads it, folded to its blocks, which other
    devices fold to theirs: no tensor of the network."""
    return " for " in tap.name


def _model_expects(against: Model, artifact: Artifact, inputs: Sequence[Array]) -> Expected:
    """Every tensor of the network, by its definition in NumPy; for a network of real numbers in
    float32."""
    from loadstone.analysis.float_network import float_tensors
    from loadstone.frontend import Canonical, load
    from loadstone.graph.batching import batched
    from loadstone.graph.reference import run_all
    from loadstone.partition.eager import partition
    from loadstone.relax.compat import shape

    is_bfloat16 = any(view.dtype == DataType.BFLOAT16 for view in artifact.tensors)
    module = load(against)
    if is_bfloat16:
        return from_tensors(float_tensors(Canonical(module), inputs, artifact.samples))
    if _is_quantized(artifact) and not _has_integers(module):
        sizes = [shape(entry) or () for entry in module["main"].params]
        check_inputs(against, artifact, sizes, artifact.samples)
        return _near(float_tensors(Canonical(module), inputs, artifact.samples), artifact)
    name = Path(against).stem if isinstance(against, str | Path) else artifact.name
    network, _ = batched(partition(module, (), name).graph, artifact.samples)
    check_inputs(against, artifact, [tensor.shape for tensor in network.inputs], 1)
    return from_tensors(run_all(network, inputs))


def check_inputs(
    against: Model, artifact: Artifact, sizes: Sequence[tuple[int, ...]], runs: int
) -> None:
    """Raises ModelError where the artifact's inputs differ from `runs` of these."""
    wanted = [[size[0] * runs, *size[1:]] for size in sizes]
    got = [list(artifact.tensors[i].shape) for i in artifact.inputs]
    if wanted != got:
        name = against if isinstance(against, str | Path) else type(against).__name__
        raise ModelError(f"{name} has inputs {wanted}, {artifact.name} {got}")


def _is_quantized(artifact: Artifact) -> bool:
    return any(tap.view.scale for tap in taps(artifact))


def _has_integers(module: IRModule) -> bool:
    from loadstone.relax.compat import bindings, is_call

    return any(is_call(call, "quantize", "dequantize") for _, call in bindings(module["main"]))


def _near(tensors: Mapping[str, Array], artifact: Artifact) -> Expected:
    """The tensors of a float network, by the names of the artifact's integers."""
    outputs = {plain_name(artifact.tensors[i].name) for i in artifact.outputs}

    def expected(tap: Tap) -> Array | None:
        name, extents = plain_name(tap.name), tap.view.shape
        value = tensors.get(name)
        if value is None or value.size != tap.view.elements:
            return None
        if not tap.view.scale or not (name in outputs or tells_factors(extents)):
            return None
        return value

    return expected
