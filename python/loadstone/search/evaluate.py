# SPDX-License-Identifier: Apache-2.0
"""Evaluate one unit of a sweep: compile a network for a device with options, and simulate it.

In:   a Unit, and the networks, which all units share.
Out:  the counts, as JSON; for a device that cannot run the network, the reason.
Next: sweep.py keeps it in the store, and adds time, energy and area.

This file runs in workers, which import it by name. A worker reads each network once, and quantizes
it once for each scheme. A result depends neither on the worker nor on the time, nor on the device's
clock or the assumptions of energy and area.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loadstone import graph as g
from loadstone.artifact.format import HostStep
from loadstone.errors import ConfigError, LoadstoneError, ModelError, SimulationError, cause_of
from loadstone.files import JsonObject, JsonValue
from loadstone.numerics import Array
from loadstone.partition.cost.hosts import stated_host
from loadstone.search.assumptions import Counts
from loadstone.search.plugin_device import (
    COUNTED,
    is_plugin,
    plugin_counts,
    plugin_target,
    registry_of,
)
from loadstone.simulator.interface import LayerFigures
from loadstone.simulator.programs import program_runs
from loadstone.vta.device.hw_config import configuration, load_config
from loadstone.vta.simulator.layers import layer_figures
from loadstone.vta.simulator.profile import profile

if TYPE_CHECKING:
    from loadstone.analysis.loaded import LoadedModel
    from loadstone.backend.target import Target
    from loadstone.compiler import Compiled
    from loadstone.frontend import Canonical
    from loadstone.relax.types import IRModule

__all__ = [
    "LAYER_FIELDS",
    "SweptNetwork",
    "Unit",
    "code_digest",
    "compiled_of",
    "evaluate",
    "is_result",
]

#: What stands of each layer in a row.
LAYER_FIELDS = ("name", "cycles", "best_cycles", "macs", "bytes", "bound")
#: Whole numbers of a row; the first two are no zeros.
_NUMBERS = (
    *("samples_per_run", "cycles", "macs", "instructions", "constants_bytes", "arena_bytes"),
    *("operators", "operators_on_host", "host_ns"),
)
#: Relax operators that make an operator of the host a multiplication.
_MULTIPLY = {"nn.conv2d", "nn.conv1d", "nn.conv2d_transpose", "matmul", "nn.dense"}


@dataclass(frozen=True)
class SweptNetwork:
    """A model file's content. samples, labels: to count right answers with; one array for each
    input, and a class for each sample. A float network is quantized with the samples where a device
    computes on integers."""

    name: str
    suffix: str
    content: bytes
    samples: tuple[Array, ...] = ()
    labels: Array | None = None

    @property
    def digest(self) -> str:
        """Of all that a row depends on."""
        digest = hashlib.sha256(self.suffix.encode() + self.content)
        for array in (*self.samples, *(() if self.labels is None else (self.labels,))):
            digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Unit:
    """device: JSON of its file, or of a plug-in's accelerator; network: index among the shared
    ones. host: as of a Space. folders: of plug-ins."""

    device: JsonObject
    network: int
    options: Mapping[str, Any]
    host: str = ""
    folders: tuple[str, ...] = ()


def evaluate(unit: Unit, networks: Sequence[SweptNetwork]) -> JsonObject:
    """What was counted; `feasible`, and else `why`."""
    try:
        compiled = compiled_of(unit, networks)
        return {"feasible": True, "why": "", **_counted(compiled, networks[unit.network], unit)}
    except LoadstoneError as error:
        return {"feasible": False, "why": str(error)}
    except Exception as error:  # a sweep of hours does not end by our mistake in one device
        return {"feasible": False, "why": f"a mistake of the compiler: {cause_of(error)}"[:400]}


def is_result(row: JsonObject) -> bool:
    """Whether a row of a store is what `evaluate` gives: a store may be anybody's."""
    if not isinstance(row.get("why"), str) or not isinstance(row.get("feasible"), bool):
        return False
    if not row["feasible"]:
        return True
    counts, layers = row.get("counts"), row.get("layers")
    if not isinstance(counts, dict) or not isinstance(layers, list):
        return False
    counted = _counted_numbers(counts)
    if counted is None:
        return False
    numbers = [row.get(name) for name in _NUMBERS] + counted
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers) or not all(numbers[:2]):
        return False
    accuracy = row.get("accuracy")
    return all(map(_is_layer, layers)) and (accuracy is None or isinstance(accuracy, float))


def _counted_numbers(counts: JsonObject) -> list[JsonValue] | None:
    """Of a VTA, or of a plug-in's accelerator; None for other keys."""
    memories = counts.get("memories", {})
    wanted = {*COUNTED, "memories"} if memories else {entry.name for entry in fields(Counts)}
    if counts.keys() != wanted or not isinstance(memories, dict):
        return None
    own = [value for name, value in counts.items() if name != "memories"]
    return [*own, *memories.values()]


def _is_layer(layer: JsonValue) -> bool:
    named = isinstance(layer, list) and len(layer) == len(LAYER_FIELDS)
    return named and all(isinstance(value, int | float | str) for value in layer)


def compiled_of(unit: Unit, networks: Sequence[SweptNetwork]) -> Compiled:
    """The network for the device. Raises LoadstoneError for what cannot run there."""
    from loadstone.backend.target import resolve
    from loadstone.compiler import CompileOptions, compile_model

    plugins = registry_of(unit.folders) if is_plugin(unit.device) else None
    said = plugin_target(unit.device) if is_plugin(unit.device) else load_config(unit.device)
    module = _module(networks[unit.network], resolve(said, plugins))
    return compile_model(module, CompileOptions(said, plugins=plugins, **unit.options))


def _device_counts(compiled: Compiled) -> tuple[int, JsonObject, list[LayerFigures]]:
    """Cycles, what is counted, and the layers, of one run."""
    artifact = compiled.artifact
    if not artifact.programs_of(0):
        runs = program_runs(artifact, compiled.device, trace=True).values()
        cycles = sum(run.cycles for run in runs)
        return cycles, plugin_counts(artifact), [one for run in runs for one in run.layers()]
    config = configuration(compiled.device)
    profiles = profile(artifact, config)
    results = [entry.result for entry in profiles]
    counts = asdict(sum((Counts.of(result) for result in results), Counts()))
    layers = [layer for entry in profiles for layer in layer_figures(entry, config)]
    return sum(result.cycles for result in results), counts, layers


def _host_ns(compiled: Compiled, host: str) -> int:
    """Of all steps of the host. Raises SimulationError for one of which nothing is known."""
    if not host:
        return 0
    known, total = stated_host(host), 0
    for step in compiled.artifact.steps:
        ns = known.step_ns(step, compiled.artifact) if isinstance(step, HostStep) else 0
        if ns is None:
            raise SimulationError(f"host {host}: nothing is known of step {step.name!r}")
        total += ns
    return total


def _counted(compiled: Compiled, network: SweptNetwork, unit: Unit) -> JsonObject:
    _check_multiplications(compiled, unit.host)
    artifact = compiled.artifact
    cycles, counts, layers = _device_counts(compiled)
    assigned = compiled.partition.assignments
    return {
        "samples_per_run": artifact.samples,
        "cycles": cycles,
        "host_ns": _host_ns(compiled, unit.host),
        "counts": counts,
        "macs": sum(_macs(e.operator) for e in assigned if e.backend != "host"),
        "instructions": sum(len(program) for program in artifact.programs),
        "constants_bytes": sum(r.size_bytes for r in artifact.regions if r.name != "arena"),
        "arena_bytes": compiled.deployment.arena.size_bytes,
        "operators": len(assigned),
        "operators_on_host": len(compiled.report()["operators_on_host"]),
        "accuracy": _accuracy(network, compiled.loaded),
        "layers": [
            [
                layer.name,
                layer.cycles,
                layer.best_cycles,
                layer.macs,
                sum(layer.bytes.values()),
                layer.bound,
            ]
            for layer in layers
        ],
    }


def _macs(operator: g.Operator) -> int:
    return operator.macs if isinstance(operator, g.Weighted | g.RealWeighted) else 0


def _check_multiplications(compiled: Compiled, host: str) -> None:
    """A device that leaves multiplications to the host would win every comparison, unless the
    host's time counts. Raises SimulationError that names the first of them, and why."""
    left = []
    for entry in compiled.partition.assignments:
        operator = entry.operator
        names = set(operator.operators) if isinstance(operator, g.Host) else set()
        if entry.backend == "host" and (_macs(operator) or names & _MULTIPLY):
            left.append(entry)
    if left and not host:
        why = "; ".join(refusal.why for _, refusal in left[0].refusals) or "no pattern takes it"
        raise SimulationError(
            f"{len(left)} operator(s) that multiply stay on the host, first "
            f"{left[0].operator.name[-60:]!r}: {why}; give the space a host, such as "
            "cortex-m55@160, and its time counts"
        )
    if not compiled.artifact.programs:
        raise SimulationError("nothing of the network runs on the device")


def _accuracy(network: SweptNetwork, loaded: LoadedModel) -> float | None:
    """The share of samples whose largest output is that of the label."""
    if network.labels is None:
        return None
    scores = loaded.run(*network.samples)[0].reshape(len(network.labels), -1)
    return float(np.mean(scores.argmax(axis=1) == network.labels))


#: By a network's digest, and by the scheme that it was quantized with.
_MODULES: dict[tuple[str, str], Canonical] = {}


def _module(network: SweptNetwork, target: Target) -> Canonical:
    """The network in canonical form, read and quantized once in each process, for all devices of
    one number format. Raises ModelError, and for a float network without samples ConfigError."""
    from loadstone.compiler import quantize
    from loadstone.frontend import Canonical, load

    digest = network.digest
    if (digest, "") not in _MODULES:
        _MODULES[digest, ""] = Canonical(_read(network))
    given = _MODULES[digest, ""]
    real = {backend.scheme for backend in target.backends} == {"float"}
    if real or not _is_float(given.module):
        return given
    if not network.samples:
        raise ConfigError(
            f"{network.name} is a float network, and the device computes on integers: give samples "
            "(--data) to quantize it with"
        )
    scheme = target.scheme()
    if (digest, scheme) not in _MODULES:
        samples, each = list(network.samples), target.per_channel
        quantized = quantize(given, samples, scheme=scheme, per_channel=each)
        _MODULES[digest, scheme] = Canonical(load(quantized.module))
    return _MODULES[digest, scheme]


def _read(network: SweptNetwork) -> IRModule:
    from loadstone.frontend import load

    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        file = Path(folder) / f"{network.name}{network.suffix}"
        file.write_bytes(network.content)
        try:
            return load(file)
        except ModelError as error:
            raise ModelError(str(error).replace(f"{folder}/", "")) from None


def _is_float(module: IRModule) -> bool:
    """Whether it multiplies, and nothing of it is quantized."""
    from loadstone.relax.compat import bindings, op_name

    names = {op_name(value) for _, value in bindings(module["main"])}
    return bool(names & _MULTIPLY) and not names & {"quantize", "dequantize"}


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Of everything that this package is made of: another compiler gives other rows."""
    digest = hashlib.sha256()
    folder = Path(str(resources.files("loadstone")))
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".json", ".so"):
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
