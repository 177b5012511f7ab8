# SPDX-License-Identifier: Apache-2.0
"""A compiled model for a notebook: load, run, profile; TVM is not needed.

In:   an artifact's file.
Out:  LoadedModel, which `loadstone.load` gives.
Next: html.py shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadstone.analysis.html import facts_table
from loadstone.analysis.report import ProfileReport, profile_report
from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import load_config
from loadstone.backend.device import Device
from loadstone.errors import ModelError
from loadstone.numerics import Array
from loadstone.runtime import device as devices

__all__ = ["LoadedModel", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """A compiled model and the device that it is for. trust: whether steps that are code may run
    (SECURITY.md)."""

    artifact: Artifact
    device: Device
    trust: bool = False

    def run(self, *inputs: Any, device: str = "sim") -> list[Array]:
        """Runs samples through the C runtime; one array (samples, ...) per output.

        inputs: one per input of the model, (samples, ...) each: NumPy arrays, tensors of PyTorch,
            lists, or generators of samples; or one mapping by name. device: as of
            `loadstone run`.
        Raises DeviceError for arrays that do not fit, naming shape and type wanted.
        """
        opened = (
            devices.OpenedDevice("sim", "", self.device)
            if device == "sim"
            else devices.open(device)
        )
        with opened, opened.load(self.artifact, trust=self.trust) as session:
            by_name = len(inputs) == 1 and isinstance(inputs[0], Mapping)
            return session.run(inputs[0] if by_name else inputs)

    def profile(self) -> ProfileReport:
        """What every layer takes, on one time axis; in a notebook, a table."""
        return profile_report(self.artifact, self.device, trust=self.trust)

    def __repr__(self) -> str:
        a = self.artifact
        ins, outs = (
            ", ".join(
                f"{a.tensors[index].dtype.name.lower()}{list(a.tensors[index].shape)}"
                for index in indices
            )
            for indices in (a.inputs, a.outputs)
        )
        return f"<loadstone model {a.name!r} for {a.device or 'the host'}: {ins} -> {outs}>"

    def _repr_html_(self) -> str:
        a = self.artifact
        rows: dict[str, object] = {
            "device": a.device or "the host",
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
    """A compiled model (.lds) to run and to profile.

    device: a built-in device or its JSON file; None: the one that the model was compiled for.
    trust: whether steps that are code may run (SECURITY.md).
    Raises ArtifactError for a file that is none, ConfigError for a device that is not built in.
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
    return LoadedModel(artifact, found, trust)
