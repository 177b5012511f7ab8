# SPDX-License-Identifier: Apache-2.0
"""A compiled model for a notebook: load, run, profile; TVM is not needed.

In:   an artifact's file.
Out:  LoadedModel, which `loadstone.load` returns.
Next: html.py shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadstone.analysis.compare import Expected, LayerDifferences, differences, one_run
from loadstone.analysis.expected import Against, expected_from
from loadstone.analysis.html import facts_table
from loadstone.analysis.report import ProfileReport, profile_report
from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import load_config
from loadstone.backend.device import Device
from loadstone.errors import ModelError
from loadstone.numerics import Array
from loadstone.runtime import device as devices
from loadstone.runtime.arrays import TensorInfo, as_inputs, tensor_infos
from loadstone.runtime.external_steps import trusts

__all__ = ["LoadedModel", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """A compiled model and its device. trust: whether steps that are code may run (SECURITY.md)."""

    artifact: Artifact
    device: Device
    trust: bool = False

    def run(
        self,
        *inputs: object,
        device: str = "sim",
        allow_nan: bool = False,
        entry: str | None = None,
        **named: object,
    ) -> list[Array]:
        """Runs samples through the C runtime; returns one array (samples, ...) per output.

        inputs: one per input of the model, (samples, ...) each: NumPy arrays, tensors of PyTorch,
            lists, or generators of samples; or one mapping by name. named: the same by name.
        device: as in `loadstone run`. allow_nan: NaN is accepted. entry: which of the model's, by
            name; None: the first. States begin anew: a session keeps them (runtime.device).
        Raises DeviceError for arrays that do not fit, naming the shape and type needed, ModelError
        for NaN.
        """
        with (
            self._opened(device) as opened,
            opened.load(self.artifact, trust=self.trust) as session,
        ):
            return session.run(_by_name(inputs, named), allow_nan=allow_nan, entry=entry)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape, type and quantization of each input of a sample, of the first entry."""
        return tensor_infos(self.artifact, self.artifact.only().inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The same of each output."""
        return tensor_infos(self.artifact, self.artifact.only().outputs)

    def compare(
        self,
        *inputs: object,
        against: Against = "reference",
        device: str = "sim",
        sample: int = 0,
    ) -> LayerDifferences:
        """Compares every layer of one sample, in the first entry, with its expected value.

        inputs: as in `run`. against: a model's file or a model in memory, quantized or float, an
            .lds file, a device, or `reference`, the meaning of the instructions (expected.py).
        Raises ModelError for a model that does not belong to this artifact.
        """
        return self.compare_with(
            lambda run: expected_from(against, self.artifact.only(), run, trust=self.trust),
            inputs,
            device,
            sample,
        )

    def compare_with(
        self,
        right: Callable[[Sequence[Array]], Expected],
        inputs: Sequence[object],
        device: str,
        sample: int,
    ) -> LayerDifferences:
        """The same with the expected values that `right` returns for the inputs of one run, which
        have the shapes of the artifact's inputs."""
        artifact = self.artifact.only()
        arrays = as_inputs(_by_name(inputs), [artifact.tensors[i] for i in artifact.inputs])
        run = one_run(artifact, arrays, sample)
        expected = right(run)
        with self._opened(device) as opened:
            found = differences(artifact, opened, run, expected, trust=self.trust)
            return LayerDifferences(tuple(found))

    def _opened(self, device: str) -> devices.OpenedDevice:
        if device == "sim":
            return devices.OpenedDevice("sim", "", self.device)
        return devices.open(device)

    def profile(self) -> ProfileReport:
        """The time of every layer of the first entry, on one time axis; in a notebook, a table."""
        return profile_report(self.artifact.only(), self.device, trust=self.trust)

    def __repr__(self) -> str:
        a = self.artifact
        calls = []
        for number, name in enumerate(a.entry_names):
            ins, outs = (
                ", ".join(
                    f"{a.tensors[index].dtype.name.lower()}{list(a.tensors[index].shape)}"
                    for index in indices
                )
                for indices in (a.only(number).inputs, a.only(number).outputs)
            )
            calls.append(f"{name}: {ins} -> {outs}" if name else f"{ins} -> {outs}")
        devices = ", ".join(a.names_at_work(a.device or "the host"))
        return f"<loadstone model {a.name!r} for {devices}: {'; '.join(calls)}>"

    def _repr_html_(self) -> str:
        a = self.artifact
        rows: dict[str, object] = {
            "device": ", ".join(a.names_at_work(a.device or "the host")),
            "samples a run": a.samples,
            "instructions": f"{sum(map(len, a.programs)):,}",
            "steps": len(a.steps),
        }
        for kind, indices in (("input", a.inputs), ("output", a.outputs)):
            for index in indices:
                tensor = a.tensors[index]
                rows[f"{kind} {tensor.name}"] = f"{tensor.dtype.name.lower()} {list(tensor.shape)}"
        return facts_table(a.name, rows)


def load(path: str | Path, *, device: str | None = None, trust: bool = False) -> LoadedModel:
    """Loads a compiled model (.lds), to run and to profile it.

    device: a built-in device or its JSON file; None: the one for which the model was compiled.
    trust: whether steps that are code may run (SECURITY.md); those of a file that this user has
        compiled on this machine always may.
    Raises ArtifactError for another kind of file, ConfigError for a device that is not built in.
    """
    if Path(path).suffix in (".tflite", ".onnx", ".pt2"):
        raise ModelError(f"{path} is not compiled: loadstone.compile({str(path)!r}, target=...)")
    artifact = Artifact.load(path)
    found = devices.device_of_artifact(artifact) if device is None else load_config(device)
    if found.fingerprint() != artifact.fingerprint:
        raise ModelError(
            f"{path} was compiled for device {artifact.device or 'unknown'!r}, not for "
            f"{found.name!r}"
        )
    return LoadedModel(artifact, found, trusts(artifact, trust))


def _by_name(inputs: Sequence[object], named: Mapping[str, object] | None = None) -> Any:
    """The mapping that was given, or a mapping of the inputs in their order."""
    if named and inputs:
        raise ModelError("inputs were given in their order and by name: give them one way")
    if named:
        return named
    return inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs
