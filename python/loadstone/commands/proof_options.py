# SPDX-License-Identifier: Apache-2.0
"""The option --require-proof, which commands that use an artifact share.

In:   a parser; arguments.
Out:  the artifact, refused where the certificate is not its own.
Next: run.py and export.py.
"""

from __future__ import annotations

import argparse

from loadstone.artifact.format import Artifact

__all__ = ["add_proof_option", "loaded"]


def add_proof_option(parser: argparse._ArgumentGroup) -> None:
    """Adds --require-proof."""
    parser.add_argument(
        "--require-proof",
        metavar="CERTIFICATE",
        help="refuse the artifact unless this file is a proof of it (loadstone prove --certificate)",
    )


def loaded(args: argparse.Namespace) -> Artifact:
    """The artifact MODEL."""
    if args.require_proof is None:
        return Artifact.load(args.model)
    from loadstone.prove.certificate import require_proof

    return require_proof(args.require_proof, args.model)
