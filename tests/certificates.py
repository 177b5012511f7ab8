# SPDX-License-Identifier: Apache-2.0
"""Certificates of artifacts that no proof was made of, for tests of what demands one.

In:   an artifact's file.
Out:  a certificate that fits it.
Next: commands/test_run.py and commands/test_export.py.
"""

from __future__ import annotations

from pathlib import Path

from loadstone.prove.certificate import certify
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.verdict import ProofVerdict, Status

__all__ = ["NETWORK", "verdict", "write_certificate"]

NETWORK = ModelNetwork(
    "net",
    (ModelTensor("x", (4,), "int8"), ModelTensor("y", (4,), "int8")),
    (
        ModelOperator("reshape", (0,), (1,), {}, 'RESHAPE (operator 0, output "y")'),
        ModelOperator("softmax", (1,), (1,), {}, 'SOFTMAX (operator 1, output "y")'),
    ),
    (0,),
    (1,),
)


def verdict(status: Status = Status.PROVED, tolerance: int = 0) -> ProofVerdict:
    """What a proof of a small network could have said."""
    return ProofVerdict(
        status,
        "",
        operators=2,
        steps=3,
        symbols=4,
        equalities={"at the steps": 5},
        error_bits=70,
        tolerance=tolerance,
    )


def write_certificate(artifact: Path, path: Path, tolerance: int = 0) -> None:
    """Writes a certificate of an artifact. tolerance: levels that each operator may be off."""
    said = verdict(tolerance=tolerance)
    certify(said, NETWORK, artifact.read_bytes(), b"the model", "1.2.3").save(path)
