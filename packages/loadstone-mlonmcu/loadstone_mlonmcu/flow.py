# SPDX-License-Identifier: Apache-2.0
"""What MLonMCU's flow calls: Loadstone as one of its frameworks, with one back end.

In:   a model that MLonMCU's front end looked up; the configuration of its command line.
Out:  the stages' artifacts: model.lds, timing.txt, a report; metrics of the build; the definitions
      that CMake builds a run with.
Next: MLonMCU's platform `mlif` builds mlif/ with them, its target `host_x86` runs the result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import mlonmcu.target  # noqa: F401  # first: it and mlonmcu.flow import each other
from mlonmcu.artifact import Artifact as Product
from mlonmcu.artifact import ArtifactFormat
from mlonmcu.flow import SUPPORTED_BACKENDS, SUPPORTED_FRAMEWORK_BACKENDS, SUPPORTED_FRAMEWORKS
from mlonmcu.flow.backend import Backend
from mlonmcu.flow.framework import Framework
from mlonmcu.models.model import ModelFormats
from mlonmcu.target.metrics import Metrics

from loadstone.artifact.format import Artifact
from loadstone.artifact.host_step import HostStep
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.files import source_folder
from loadstone.library.native import library_file
from loadstone.runtime.device import device_of_artifact
from loadstone_mlonmcu.environment import DEFAULT_TARGET

__all__ = ["MlonmcuBackend", "MlonmcuFramework", "register"]


class MlonmcuFramework(Framework):  # type: ignore[misc]  # MLonMCU has no types
    """What the build of a run must know. device: which runs it, a name of lds_easy.h; "" for the
    simulator with the timing of the artifact's device."""

    name = "loadstone"
    DEFAULTS: ClassVar = {"device": ""}
    REQUIRED: ClassVar[set[str]] = set()

    def get_platform_defs(self, platform: str) -> dict[str, str]:
        """The definitions of CMake's that mlif/CMakeLists.txt asks for."""
        return {
            **super().get_platform_defs(platform),
            "LOADSTONE_LIBRARY": str(library_file()),
            "LOADSTONE_SOURCES": str(source_folder()),
            "LOADSTONE_DEVICE": str(self.config["device"]),
        }


class MlonmcuBackend(Backend):  # type: ignore[misc]
    """Compiles a model. target: as of `loadstone compile --target`."""

    name = "loadstone"
    DEFAULTS: ClassVar = {"target": DEFAULT_TARGET, "strategy": "eager"}
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
