# SPDX-License-Identifier: Apache-2.0
"""A folder that MLONMCU_HOME may name: an environment, and models with samples.

In:   a .tflite or .onnx file; an .npz of inputs, and of what their outputs should be.
Out:  environment.yml; models/NAME with the file, definition.yml and the samples' bytes.
Next: MLonMCU's front end looks the model up, and validates a run's integers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loadstone.artifact.format import BufferView
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.files import JsonObject, JsonValue, write_whole
from loadstone.numerics import Array
from loadstone.runtime.arrays import read_arrays

__all__ = ["DEFAULT_TARGET", "write_environment", "write_model"]

#: As of `loadstone compile --target`.
DEFAULT_TARGET = "vtaq-1x16x16"
#: An environment with this host alone; its paths are relative to MLONMCU_HOME.
_ENVIRONMENT = {
    "logging": {"level": "INFO", "to_file": False, "rotate": False},
    "cleanup": {"auto": False, "keep": 100},
    "paths": {
        "deps": "deps",
        "logs": "logs",
        "results": "results",
        "plugins": "plugins",
        "temp": "temp",
        "models": ["models"],
    },
    "repos": {},
    "frameworks": {
        "default": "loadstone",
        "loadstone": {
            "enabled": True,
            "backends": {"default": "loadstone", "loadstone": {"enabled": True, "features": {}}},
            "features": {},
        },
    },
    "frontends": {
        name: {
            "enabled": True,
            "features": {"gen_data": True, "gen_ref_data": True, "validate": True},
        }
        for name in ("tflite", "onnx")
    },
    "toolchains": {"gcc": True},
    "platforms": {
        "mlif": {
            "enabled": True,
            "features": dict.fromkeys(("debug", "set_inputs", "get_outputs", "validate_new"), True),
        }
    },
    "targets": {"default": "host_x86", "host_x86": {"enabled": True, "features": {}}},
    "postprocesses": {"use": []},
    "vars": {"allow_extensions": False, "cmake.use_system": True},
    "flags": {},
}


def write_environment(home: str | Path) -> Path:
    """A folder that MLONMCU_HOME may name: its environment.yml, and the folders that it names.
    Raises LoadstoneError where there is an environment, which may be somebody's."""
    home = Path(home).resolve()
    if (home / "environment.yml").exists():
        raise LoadstoneError(f"{home}: there is an environment.yml already: name another folder")
    for folder in ("deps", "logs", "models", "plugins", "results", "temp"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    text = json.dumps({"home": str(home), **_ENVIRONMENT}, indent=2)  # JSON is YAML
    write_whole(home / "environment.yml", text.encode())
    return home / "environment.yml"


def write_model(model: str | Path, samples: str | Path, home: str | Path) -> Path:
    """The model's folder in MLonMCU's collection: the file, its inputs and outputs as
    definition.yml says them, and the samples' bytes. samples: an .npz with in0, in1, ... and
    out0, ..., as `loadstone run --expect` takes it, (samples, ...) each. MLonMCU then validates
    the run's integers. Raises LoadstoneError."""
    model = Path(model)
    artifact = compile_model(str(model), DEFAULT_TARGET).artifact
    ports = {"in": artifact.inputs, "out": artifact.outputs}
    tensors = {prefix: [artifact.tensors[i] for i in ports[prefix]] for prefix in ports}
    arrays = {prefix: read_arrays(str(samples), tensors[prefix], prefix) for prefix in ports}
    folder = Path(home) / "models" / model.stem
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / model.name, model.read_bytes())
    nodes = {
        f"{prefix}put_nodes": [
            _node(tensor, artifact.samples, prefix) for tensor in tensors[prefix]
        ]
        for prefix in ports
    }
    for prefix, given in arrays.items():
        _write_samples(given, folder / f"{prefix}put")
    text = json.dumps({"network_parameters": nodes}, indent=2)
    write_whole(folder / "definition.yml", text.encode())
    return folder


def _write_samples(arrays: Sequence[Array], folder: Path) -> None:
    """The bytes of each sample, as SAMPLE_PORT.bin. arrays: (samples, ...) of each port."""
    folder.mkdir(exist_ok=True)
    for port, array in enumerate(arrays):
        for sample, values in enumerate(array):
            write_whole(folder / f"{sample}_{port}.bin", np.ascontiguousarray(values).tobytes())


def _node(tensor: BufferView, samples: int, prefix: str) -> JsonObject:
    """What definition.yml says of an input or output. A scale of one makes MLonMCU take and compare
    integers as they are."""
    dtype = tensor.dtype.name.lower()
    grid = {"scale": 1, "zero_shift": 0, "dtype": dtype}
    said = {"name": tensor.name, "shape": [1, *tensor.shape[1:]], "dtype": dtype}
    said["range"] = _range(tensor)
    assert tensor.shape[0] == samples
    if prefix == "in":
        return {**said, "quantize": grid, "example_input": {"path": "input"}}
    return {**said, "dequantize": grid, "test_output_path": "output"}


def _range(tensor: BufferView) -> list[JsonValue]:
    """All that a tensor's type holds: MLonMCU's validation asks for a range."""
    if np.issubdtype(tensor.dtype.numpy, np.floating):
        largest = float(np.finfo(np.float32).max)
        return [-largest, largest]
    limits = np.iinfo(tensor.dtype.name.lower())
    return [int(limits.min), int(limits.max)]
