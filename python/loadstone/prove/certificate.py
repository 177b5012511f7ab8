# SPDX-License-Identifier: Apache-2.0
"""A proof as a file: which artifact computes which model, by which rules, under which assumptions.

In:   a ProofVerdict that is `proved`, and the bytes it is about; or a file of JSON.
Out:  Certificate; refusals of an artifact that it does not fit.
Next: commands/prove.py and commands/compile.py write it; commands/run.py and commands/export.py
      demand it (--require-proof).

The file is an object of these, and of nothing else:

    schema        "loadstone-proof-2"
    loadstone     the version that proved
    artifact      {"sha256": of the whole .lds file}
    model         {"sha256": of the whole model file}
    device        {"name": as the artifact has it, "fingerprint": of what it may execute, in hex}
    operators     [{"operator": what names it in the model, "kind": network.py's, "rule": how its
                  elements were found equal}], all of the network, in its order
    tolerance     0: equal; 1: each element is at most one level from the network's function of what
                  the artifact has before it
    equalities    {way of comparing: how many functions}
    error_bits    another artifact would have been called proved with a probability below
                  2^-error_bits
    assumptions   [what is trusted, a sentence each]

A certificate says what a program found; whoever can write the artifact can write it too. Who needs
more than that keeps it beside the artifact's signature, or proves again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from loadstone.artifact.format import Artifact
from loadstone.errors import ArtifactError
from loadstone.files import JsonObject, JsonValue, parsed_json, read_whole, write_whole
from loadstone.prove.network import ModelNetwork
from loadstone.prove.verdict import ProofVerdict, Status

__all__ = ["Certificate", "ProvedOperator", "certify", "read_certificate", "require_proof"]

SCHEMA = "loadstone-proof-2"
_SUMS = "equal sums, and equal levels for every sum that can occur"
_AVERAGES = f"{_SUMS}; those of ONNX are sums of integers, scaled once in float32"
_MOVED = "the same elements in the same places"
_HOST = "the host's operator of that name, with equal constants, on the same elements"
_RULES = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "dense", "batch_matmul"), _SUMS),
    "resize_bilinear": _SUMS,
    **dict.fromkeys(("average_pool", "global_average_pool", "mean"), _AVERAGES),
    **dict.fromkeys(("add", "sub", "mul"), "equal levels for every pair of levels"),
    **dict.fromkeys(("requantize", "table", "channel_table"), "equal levels for every level"),
    **dict.fromkeys(("reshape", "transpose", "pad", "slice", "resize_nearest"), _MOVED),
    "concat": f"{_MOVED}; where it rescales, equal levels for every level",
    "max_pool": "the greatest of the same elements",
}
ASSUMPTIONS = (
    "Instructions mean what docs/isa.md says, and the device executes them so.",
    "Operators of the model mean what the reference kernels of their framework compute.",
    "The runtime executes the artifact's steps in order, and places its tensors as it says.",
    "Steps of the host compute the operators that they name.",
)


@dataclass(frozen=True)
class ProvedOperator:
    """An operator of the model: what names it, its kind, and how it was found equal."""

    operator: str
    kind: str
    rule: str


@dataclass(frozen=True)
class Certificate:
    """What the file holds. artifact_sha256, model_sha256, fingerprint: in hex."""

    loadstone: str
    artifact_sha256: str
    model_sha256: str
    device: str
    fingerprint: str
    operators: tuple[ProvedOperator, ...]
    tolerance: int
    equalities: Mapping[str, int]
    error_bits: int
    assumptions: tuple[str, ...]

    def save(self, path: str | Path) -> None:
        """Writes the file."""
        content: JsonObject = {
            "schema": SCHEMA,
            "loadstone": self.loadstone,
            "artifact": {"sha256": self.artifact_sha256},
            "model": {"sha256": self.model_sha256},
            "device": {"name": self.device, "fingerprint": self.fingerprint},
            "operators": [asdict(operator) for operator in self.operators],
            "tolerance": self.tolerance,
            "equalities": dict(self.equalities),
            "error_bits": self.error_bits,
            "assumptions": list(self.assumptions),
        }
        write_whole(path, json.dumps(content, indent=1) + "\n")

    def check(self, artifact: bytes, where: str, certificate: str) -> None:
        """Raises ArtifactError unless the artifact is the one that was proved. where, certificate:
        what messages call both."""
        digest = _digest(artifact)
        if digest != self.artifact_sha256:
            raise ArtifactError(
                f"{where}: its SHA-256 begins with {digest[:12]}, {certificate} is a proof of "
                f"{self.artifact_sha256[:12]}: prove this one (loadstone prove {where} MODEL "
                f"--certificate {certificate})"
            )


def certify(
    verdict: ProofVerdict, network: ModelNetwork, artifact: bytes, model: bytes, version: str
) -> Certificate:
    """The certificate of a proof. artifact, model: both files' bytes. version: Loadstone's."""
    if verdict.status is not Status.PROVED:
        raise AssertionError(f"a certificate is of a proof, and this is {verdict.status}")
    held = Artifact.from_bytes(artifact)
    operators = tuple(
        ProvedOperator(operator.where, operator.kind, _RULES.get(operator.kind, _HOST))
        for operator in network.operators
    )
    return Certificate(
        version,
        _digest(artifact),
        _digest(model),
        held.device,
        held.fingerprint.hex(),
        operators,
        verdict.tolerance,
        dict(verdict.equalities),
        verdict.error_bits,
        ASSUMPTIONS,
    )


def require_proof(certificate: str, artifact: str, *, near: bool = False) -> Artifact:
    """The artifact of a file. Raises ArtifactError unless the file `certificate` is its proof, and
    says that all levels are equal; near: or each operator's at most one off."""
    data, held = _read(artifact), read_certificate(certificate)
    held.check(data, artifact, certificate)
    if held.tolerance > (1 if near else 0):
        raise ArtifactError(
            f"{certificate}: proves of {artifact} that each operator is at most {held.tolerance} "
            f"level(s) off, not equal: compile without --rounding near and prove that"
            + ("" if held.tolerance > 1 else ", or take it with --near")
        )
    return Artifact.from_bytes(data)


def read_certificate(path: str) -> Certificate:
    """The certificate of a file. Raises ArtifactError, naming what is wrong with it."""
    fields = _Fields(path, "the certificate", parsed_json(_read(path), path, ArtifactError))
    schema = fields.text("schema")
    if schema != SCHEMA:
        raise ArtifactError(f"{path}: its schema is {schema!r}, and {SCHEMA!r} is read: prove anew")
    device = fields.inner("device", ("name", "fingerprint"))
    made = Certificate(
        fields.text("loadstone"),
        fields.inner("artifact", ("sha256",)).text("sha256"),
        fields.inner("model", ("sha256",)).text("sha256"),
        device.text("name"),
        device.text("fingerprint"),
        tuple(
            ProvedOperator(*(_Fields(path, "an operator", one).text(name) for name in _OPERATOR))
            for one in fields.list("operators")
        ),
        fields.count("tolerance"),
        {way: _Fields(path, way, {way: n}).count(way) for way, n in fields.items("equalities")},
        fields.count("error_bits"),
        tuple(fields.texts("assumptions")),
    )
    fields.check(_NAMES)
    return made


_OPERATOR = ("operator", "kind", "rule")
_NAMES = (
    *("schema", "loadstone", "artifact", "model", "device"),
    *("operators", "tolerance", "equalities", "error_bits", "assumptions"),
)


class _Fields:
    """An object of the file, whose fields are what they should be or refused."""

    def __init__(self, path: str, what: str, value: JsonValue) -> None:
        self.path, self.what = path, what
        self.value: JsonObject = self.of(value, dict, "an object", what)

    def of(self, value: JsonValue, kind: type, name: str, field: str) -> JsonValue:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ArtifactError(f"{self.path}: not a certificate: {field} is not {name}")
        return value

    def text(self, name: str) -> str:
        return str(self.of(self.value.get(name), str, "a text", name))

    def count(self, name: str) -> int:
        number = int(self.of(self.value.get(name), int, "a number", name))
        if number < 0:
            raise ArtifactError(f"{self.path}: not a certificate: {name} is {number}, below 0")
        return number

    def list(self, name: str) -> list[JsonValue]:
        return list(self.of(self.value.get(name), list, "a list", name))

    def texts(self, name: str) -> Sequence[str]:
        return [str(self.of(value, str, "a list of texts", name)) for value in self.list(name)]

    def items(self, name: str) -> Sequence[tuple[str, JsonValue]]:
        return list(self.of(self.value.get(name), dict, "an object", name).items())

    def inner(self, name: str, names: Sequence[str]) -> _Fields:
        found = _Fields(self.path, name, self.value.get(name))
        found.check(names)
        return found

    def check(self, names: Sequence[str]) -> None:
        if unknown := sorted(set(self.value) - set(names)):
            raise ArtifactError(f"{self.path}: not a certificate: {self.what} has {unknown[0]!r}")


def _read(path: str) -> bytes:
    try:
        return read_whole(path)
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
