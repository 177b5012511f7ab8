# SPDX-License-Identifier: Apache-2.0
"""A process that runs a network on a device by its name, again and again, as an application would.

In:   the device's name, an artifact of one input and one output, how many runs, a seed; on stdin
      the line that begins them.
Out:  JSON on stdout: the runs that failed, each with its error; SHA-256 of the outputs of the
      others.
Next: test_serve.py compares them with those of the network alone.
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

from loadstone.artifact.format import Artifact
from tests.hosts.easy import Easy, EasyError


def main(device: str, path: str, runs: int, seed: int) -> None:
    """Prints a line when the network is open, and another one at the end."""
    artifact, rng = Artifact.load(path), np.random.default_rng(seed)
    shapes = [artifact.tensors[i].shape for i in (*artifact.inputs, *artifact.outputs)]
    failed, digest = {}, hashlib.sha256()
    with Easy(path, device) as net:
        print("open", flush=True)
        sys.stdin.readline()
        for run in range(runs):
            x = rng.integers(-128, 128, shapes[0]).astype(np.int8)
            y = np.zeros(shapes[1], np.int8)
            try:
                net.run([x], [y])
            except EasyError as error:
                failed[run] = str(error)
            else:
                digest.update(y.tobytes())
    print(json.dumps({"failed": failed, "digest": digest.hexdigest()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
