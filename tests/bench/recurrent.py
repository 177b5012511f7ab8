# SPDX-License-Identifier: Apache-2.0
"""What `loadstone run` takes for a network of many small steps: a CRNN, whose LSTMs are unrolled.

In:   PyTorch (`pip install 'loadstone[torch]'`; skipped without it), which builds the network.
Out:  user seconds of compiling it and of running 8 samples on the simulator; the steps of a run.
Next: `loadstone profile` shows what each step of it takes.

Convolutions over an image of 32 x 96 give a sequence of 24, which two bidirectional LSTMs read:
some 1,600 operators, a hundred programs and two thousand steps of the host. Weights are random.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from loadstone.artifact.format import Artifact, HostStep
from tests.bench.user_networks import TARGET, bounded

if TYPE_CHECKING:
    from torch import nn

__all__ = ["run"]

SAMPLES, WIDTH, HEIGHT, HIDDEN, SYMBOLS = 8, 96, 32, 64, 37
#: User seconds of `loadstone run` with 8 samples: a tenth of what was reported before.
MOST_SECONDS = 9.5


def run() -> bool:
    """False where a run takes too long, or a command fails."""
    if find_spec("torch") is None:
        print("skipped: PyTorch is absent (pip install 'loadstone[torch]')")
        return True
    with tempfile.TemporaryDirectory() as folder:
        model, samples = _written(Path(folder))
        artifact = Path(folder, "crnn.lds")
        words = ("-t", TARGET, "--data", str(samples), "-o", str(artifact))
        loadstone = (sys.executable, "-m", "loadstone")
        compiled = bounded([*loadstone, "compile", str(model), *words])
        ran = bounded([*loadstone, "run", str(artifact), "--inputs", str(samples)])
        if compiled[2] or ran[2]:
            print(f"crnn: {compiled[2] or ran[2]}")
            return False
        steps = Artifact.load(artifact).steps
    host = sum(isinstance(step, HostStep) for step in steps)
    print(
        f"crnn: {len(steps) - host} programs and {host} steps of the host; compiled in "
        f"{compiled[0]:.1f} user s, {SAMPLES} samples run in {ran[0]:.1f} (at most {MOST_SECONDS})"
    )
    return ran[0] <= MOST_SECONDS


def _written(folder: Path) -> tuple[Path, Path]:
    """The network and its samples."""
    import torch

    torch.manual_seed(0)
    image = (1, 1, HEIGHT, WIDTH)
    with warnings.catch_warnings(action="ignore"):  # LSTM's own weights are no buffers
        program = torch.export.export(_network().eval(), (torch.zeros(image),))
    torch.export.save(program, folder / "crnn.pt2")
    drawn = np.random.default_rng(0).normal(0, 1, (SAMPLES, *image)).astype(np.float32)
    np.savez(folder / "crnn.npz", in0=drawn)
    return folder / "crnn.pt2", folder / "crnn.npz"


def _network() -> nn.Module:
    import torch
    from torch import nn

    def block(inputs: int, outputs: int, pool: tuple[int, int]) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(pool)]

    class Crnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                *(*block(1, 16, (2, 2)), *block(16, 32, (2, 2))),
                *(*block(32, 64, (2, 1)), *block(64, 64, (4, 1))),
            )
            self.recurrent = nn.LSTM(64, HIDDEN, num_layers=2, bidirectional=True)
            self.symbols = nn.Linear(2 * HIDDEN, SYMBOLS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sequence = self.features(x).squeeze(2).permute(2, 0, 1)
            read: torch.Tensor = self.symbols(self.recurrent(sequence)[0])
            return read

    return Crnn()


if __name__ == "__main__":
    sys.exit(0 if run() else 1)
