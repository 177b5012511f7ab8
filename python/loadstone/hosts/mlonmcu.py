# SPDX-License-Identifier: Apache-2.0
"""MLonMCU: Loadstone as a framework and a back end of its flow.

In:   a model that MLonMCU's front end looked up; the words of its command line.
Out:  the stages' artifacts: model.lds, reports; metrics of the build and the run.
Next: MLonMCU's platform `mlif` builds runtime/hosts/mlonmcu, its target `host_x86` runs the result.

    python -m loadstone.hosts.mlonmcu environment HOME     a folder for MLONMCU_HOME
    python -m loadstone.hosts.mlonmcu model net.tflite samples.npz --home HOME
    MLONMCU_HOME=HOME python -m loadstone.hosts.mlonmcu flow run net -b loadstone -t host_x86 ...

MLonMCU fixes the names of its back ends before it loads extensions, so this file is its command,
too: it registers both, says where the interface is that a run is built with, and hands the words
on. MLonMCU is imported when this file is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import mlonmcu.target  # noqa: F401  # first: it and mlonmcu.flow import each other
import numpy as np
from mlonmcu.artifact import Artifact as Product
from mlonmcu.artifact import ArtifactFormat
from mlonmcu.flow import SUPPORTED_BACKENDS, SUPPORTED_FRAMEWORK_BACKENDS, SUPPORTED_FRAMEWORKS
from mlonmcu.flow.backend import Backend
from mlonmcu.flow.framework import Framework
from mlonmcu.models.model import ModelFormats
from mlonmcu.target.metrics import Metrics

from loadstone.artifact.format import Artifact, BufferView
from loadstone.artifact.host_step import HostStep
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.files import JsonObject, JsonValue, source_folder, write_whole
from loadstone.library.native import library_file
from loadstone.numerics import Array
from loadstone.runtime.arrays import read_arrays
from loadstone.runtime.device import device_of_artifact

__all__ = ["MlonmcuBackend", "MlonmcuFramework", "main", "write_environment", "write_model"]

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


class MlonmcuFramework(Framework):  # type: ignore[misc]  # MLonMCU has no types
    """What the build of a run must know. device: which runs it, a name of lds_easy.h; "" for the
    simulator with the timing of the artifact's device."""

    name = "loadstone"
    DEFAULTS: ClassVar = {"device": ""}
    REQUIRED: ClassVar[set[str]] = set()

    def get_platform_defs(self, platform: str) -> dict[str, str]:
        """The definitions of CMake's that runtime/hosts/mlonmcu asks for."""
        return {
            **super().get_platform_defs(platform),
            "LOADSTONE_LIBRARY": str(library_file()),
            "LOADSTONE_SOURCES": str(source_folder()),
            "LOADSTONE_DEVICE": str(self.config["device"]),
        }


class MlonmcuBackend(Backend):  # type: ignore[misc]
    """Compiles a model. target: as of `loadstone compile --target`."""

    name = "loadstone"
    DEFAULTS: ClassVar = {"target": "vtaq-1x16x16", "strategy": "eager"}
    REQUIRED: ClassVar[set[str]] = set()

    def __init__(self, features: object = None, config: object = None) -> None:
        super().__init__(framework="loadstone", features=features, config=config)
        self.model: Path | None = None
        self.supported_formats = [ModelFormats.TFLITE, ModelFormats.ONNX]

    def load_model(self, model: str | Path, **_: object) -> None:
        """MLonMCU calls it; shapes and types are the model's own."""
        self.model = Path(model)

    def generate(self) -> tuple[dict[str, list[Product]], dict[str, Metrics]]:
        """({"default": artifacts}, {"default": metrics}). Raises LoadstoneError, also for a model
        with steps that MLIF's program would have to hold as C."""
        compiled = compile_model(
            str(self.model), self.config["target"], strategy=self.config["strategy"]
        )
        artifact = compiled.artifact
        outside = [s.name for s in artifact.steps if isinstance(s, HostStep) and s.function]
        if outside:
            raise LoadstoneError(
                f"{self.model}: {len(outside)} steps are no part of the runtime, "
                f"{outside[0]!r} among them: a C project holds such steps (docs/c-projects.md)"
            )
        metrics = Metrics()
        for name, value in (
            ("Loadstone Instructions", sum(len(p.instructions) for p in artifact.programs)),
            ("Loadstone Regions [bytes]", sum(r.size_bytes for r in artifact.regions)),
            ("Loadstone Steps", len(artifact.steps)),
        ):
            metrics.add(name, value, True)
        report = json.dumps(compiled.report(), indent=2)
        products = [
            Product("model.lds", raw=artifact.to_bytes(), fmt=ArtifactFormat.RAW),
            Product("timing.txt", content=_timing(artifact), fmt=ArtifactFormat.TEXT),
            Product("loadstone_out.log", content=report, fmt=ArtifactFormat.TEXT),
        ]
        return {"default": products}, {"default": metrics}


def _timing(artifact: Artifact) -> str:
    """The constants of the artifact's device as lds_easy.h reads them: lines `NAME VALUE`."""
    constants = device_of_artifact(artifact).timing
    return "".join(f"{name} {constant.value}\n" for name, constant in constants.items())


def register() -> None:
    """Adds both to MLonMCU's tables."""
    SUPPORTED_FRAMEWORKS["loadstone"] = MlonmcuFramework
    SUPPORTED_BACKENDS["loadstone"] = MlonmcuBackend
    SUPPORTED_FRAMEWORK_BACKENDS["loadstone"] = {"loadstone": MlonmcuBackend}


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
    artifact = compile_model(str(model), MlonmcuBackend.DEFAULTS["target"]).artifact
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


def main(words: Sequence[str]) -> int:
    """The command. Returns its exit status."""
    if words and words[0] in ("environment", "model"):
        parser = argparse.ArgumentParser(prog="python -m loadstone.hosts.mlonmcu " + words[0])
        if words[0] == "environment":
            parser.add_argument("home", metavar="HOME", help="the folder to write")
            print(write_environment(parser.parse_args(words[1:]).home))
            return 0
        parser.add_argument("model", help="a .tflite or .onnx file")
        parser.add_argument("samples", help="an .npz with in0, ... and out0, ...")
        parser.add_argument("--home", required=True, help="what MLONMCU_HOME names")
        args = parser.parse_args(words[1:])
        print(write_model(args.model, args.samples, args.home))
        return 0
    register()
    interface = f"mlif.src_dir={source_folder() / 'runtime/hosts/mlonmcu'}"
    if words and words[0] == "flow" and not any("mlif.src_dir=" in word for word in words):
        words = [*words, "-c", interface]
    return int(importlib.import_module("mlonmcu.cli.main").main(list(words)) or 0)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (LoadstoneError, OSError) as error:
        sys.exit(f"loadstone: {error}")
