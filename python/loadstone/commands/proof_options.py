# SPDX-License-Identifier: Apache-2.0
"""Options on proofs that commands share: --require-proof with --near, and --prove of `loadstone
compile`.

In:   a parser; arguments; an artifact.
Out:  the artifact, refused where the certificate is not its own; a certificate, or a refusal of
      what is not proved.
Next: run.py, export.py and compile.py.
"""

from __future__ import annotations

import argparse

from loadstone.artifact.format import Artifact
from loadstone.errors import ConfigError
from loadstone.files import read_whole

__all__ = ["add_prove_option", "add_require_option", "loaded", "prove_compiled"]


def add_require_option(parser: argparse._ArgumentGroup) -> None:
    """Adds --require-proof and --near."""
    parser.add_argument(
        "--require-proof",
        metavar="CERTIFICATE",
        help="refuse the artifact unless this file is a proof of it (loadstone prove --certificate)",
    )
    parser.add_argument(
        "--near",
        action="store_true",
        help="with --require-proof: take a proof of each operator being at most one level off, too "
        "(loadstone prove --near)",
    )


def add_prove_option(parser: argparse._ArgumentGroup) -> None:
    """Adds --prove."""
    parser.add_argument(
        "--prove",
        metavar="CERTIFICATE",
        help="prove that the artifact computes the model for every input, and write what was proved; "
        "what is not proved is not written",
    )


def loaded(args: argparse.Namespace) -> Artifact:
    """The artifact MODEL. Raises ArtifactError where it is not proved as it is demanded."""
    if args.require_proof is None:
        if args.near:
            raise ConfigError(
                "--near says what proof is enough, and none is demanded: give --require-proof "
                "CERTIFICATE, or leave --near out"
            )
        return Artifact.load(args.model)
    from loadstone.prove.certificate import require_proof

    return require_proof(args.require_proof, args.model, near=args.near)


def prove_compiled(model: str, artifact: Artifact, certificate: str, *, near: bool) -> None:
    """Writes the certificate of an artifact that was compiled from the file `model`. near: with
    --rounding near. Raises ConfigError where it is not proved."""
    from loadstone import __version__
    from loadstone.commands.prove import attempt
    from loadstone.prove.certificate import certify
    from loadstone.prove.verdict import Status

    data = read_whole(model)
    network, verdict = attempt(model, data, artifact, near=near)
    if network is None or verdict.status is not Status.PROVED:
        raise ConfigError(
            f"{model}: --prove: {verdict.said}: {verdict.reason}: compile without --prove, and "
            "`loadstone prove` says the same of the artifact"
        )
    certify(verdict, network, artifact.to_bytes(), data, __version__).save(certificate)
