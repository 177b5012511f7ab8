# SPDX-License-Identifier: Apache-2.0
"""`loadstone prove NET.lds MODEL`: these streams compute this network, for every input.

In:   an artifact, and the model's file that it was compiled from.
Out:  proved, not proved (operator, element, sum, both bytes, the instruction that stored it), or
      unsupported (which step), as text or JSON; a certificate of what was proved.
Next: `loadstone run` and `loadstone export --require-proof` take nothing else than what is proved.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from loadstone.artifact.format import Artifact
from loadstone.commands.answers import json_text
from loadstone.errors import ArtifactError, ModelError, UnsupportedError
from loadstone.files import JsonObject, read_whole
from loadstone.prove.certificate import certify
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.verdict import ProofVerdict, Status

__all__ = ["attempt", "configure", "read_network", "run"]

_EPILOG = """\
examples:
  loadstone prove net.lds net.tflite                            proved, or which element of which operator is not
  loadstone prove net.lds net.tflite --near                     of --rounding near: each operator at most one level off
  loadstone prove net.lds net.onnx --json                       for scripts
  loadstone prove net.lds net.tflite --certificate proof.json   what was proved, for loadstone run --require-proof

The network is read from the model's file, by a reader that shares nothing with the compiler's, and the artifact's instructions are
executed on symbols instead of numbers. What is proved holds for every input; what that rests on: docs/proofs.md.
exit status: 0 proved; 1 not proved; 2 a user's mistake; 3 a step that the proof does not cover
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds NET.lds, MODEL and the options."""
    parser.epilog = _EPILOG
    parser.add_argument("artifact", metavar="NET.lds", help="an artifact")
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="the quantized model that it was compiled from: .tflite, .onnx",
    )
    parser.add_argument(
        "--near",
        action="store_true",
        help="let each element be one level from the network's function of what the artifact has "
        "before it, as artifacts of `loadstone compile --rounding near` are",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--certificate", metavar="FILE", help="write what was proved to FILE, where it is"
    )


def run(args: argparse.Namespace) -> int:
    """Proves; the exit status says what came of it."""
    artifact, model = read_whole(args.artifact), read_whole(args.model)
    held = Artifact.load(args.artifact)
    _check_runs(args.artifact, held)
    network, verdict = attempt(args.model, model, held, near=args.near)
    if args.certificate and network is not None and verdict.status is Status.PROVED:
        from loadstone import __version__

        made = certify(verdict, network, artifact, model, __version__)
        made.save(args.certificate)
    print(
        json_text(_as_dict(args, verdict))
        if args.json
        else _text(args.artifact, args.model, verdict)
    )
    return verdict.status.value


def _check_runs(path: str, artifact: Artifact) -> None:
    """Raises ArtifactError for programs that the runtime refuses: of these nothing is to be
    proved."""
    from loadstone.runtime.device import validate

    status, step, instruction = validate(artifact)
    if status:
        raise ArtifactError(
            f"{path}: the runtime refuses step {artifact.steps[step].name!r} at instruction "
            f"{instruction} (status {status}): compile the model again"
        )


def attempt(
    path: str, data: bytes, artifact: Artifact, *, near: bool
) -> tuple[ModelNetwork | None, ProofVerdict]:
    """The network of a model's file, None where it holds what no proof covers, and what is said of
    an artifact. near: elements may be one level off. Raises ArtifactError for one with entries."""
    if artifact.entries:
        raise ArtifactError(
            f"{artifact.name} has the entries {', '.join(artifact.entry_names)}: a proof is of an "
            "artifact with one, which `loadstone compile --rows 1` writes"
        )
    tolerance = 1 if near else 0
    try:
        network = read_network(path, data)
    except UnsupportedError as error:
        return None, ProofVerdict.unsupported(str(error), tolerance)
    return network, Proof.attempt(network, artifact, tolerance)


def read_network(path: str, data: bytes) -> ModelNetwork:
    """The network of a file. Raises ModelError for one of another kind."""
    match Path(path).suffix.lower():
        case ".tflite":
            from loadstone.prove.read_tflite import read_tflite

            return read_tflite(data, path)
        case ".onnx":
            from loadstone.prove.read_onnx import read_onnx

            return read_onnx(data, path)
        case other:
            raise ModelError(
                f"{path}: a proof reads the network from a .tflite or an .onnx file, not from "
                f"{other or 'a file without a suffix'}: name the model's file"
            )


def _as_dict(args: argparse.Namespace, verdict: ProofVerdict) -> JsonObject:
    return {
        "artifact": args.artifact,
        "model": args.model,
        "status": verdict.status.name.lower(),
        "reason": verdict.reason,
        "tolerance": verdict.tolerance,
        "operators": verdict.operators,
        "steps": verdict.steps,
        "equalities": dict(verdict.equalities),
        "error_bits": verdict.error_bits,
    }


def _text(artifact: str, model: str, verdict: ProofVerdict) -> str:
    if verdict.status is not Status.PROVED:
        return f"{verdict.said}: {verdict.reason}"
    off = ", each operator at most one level off" if verdict.tolerance else ""
    ways = ", ".join(f"{count:,} {way}" for way, count in verdict.equalities.items() if count)
    return (
        f"proved: {artifact} computes {model}{off}, for every input\n"
        f"  network      {verdict.operators} operators\n"
        f"  instructions {verdict.steps:,} steps of GEMM and ALU\n"
        f"  functions    compared {ways or 'none'}\n"
        f"  error        below 2^-{verdict.error_bits}: random points at which sums are compared"
    )
