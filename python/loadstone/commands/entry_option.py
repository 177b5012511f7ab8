# SPDX-License-Identifier: Apache-2.0
"""The option --entry: which of an artifact's entries a command is about.

In:   an artifact, the options.
Out:  the artifact as if that entry were all of it.
Next: run.py, profile.py, compare.py and vectors.py.
"""

from __future__ import annotations

import argparse

from loadstone.artifact.format import Artifact

__all__ = ["add_entry", "chosen_entry"]


def add_entry(group: argparse._ArgumentGroup) -> None:
    """Adds --entry."""
    group.add_argument(
        "--entry",
        metavar="NAME",
        help="of a model with several entries, as `loadstone inspect` lists them (default: the first)",
    )


def chosen_entry(args: argparse.Namespace, artifact: Artifact) -> Artifact:
    """Raises ArtifactError for an entry that the model does not have."""
    return artifact.only(artifact.entry_number(args.entry))
