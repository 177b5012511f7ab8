# SPDX-License-Identifier: Apache-2.0
"""tools/train_text.py: the training learns, and what it learns is what the file computes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from loadstone.demo.sentences import SYMBOLS, encode, text
from loadstone.demo.text import STATES
from tests.repeat import more
from tools.text_network import save

pytestmark = [more, pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is absent")]


def test_some_steps_learn_and_the_file_is_the_network(tmp_path: Path) -> None:
    import torch

    from tests.onnx_builder import session
    from tools.train_text import TextNetwork, train

    tokens = torch.tensor([encode(text(60, 8))])

    def loss(network: TextNetwork) -> float:
        with torch.no_grad():
            scores = network(tokens[:, :-1])
        return float(torch.nn.functional.cross_entropy(scores[0], tokens[0, 1:]))

    torch.manual_seed(1)
    begun, trained = TextNetwork(), train(12)
    assert loss(trained) < 0.9 * loss(begun)

    save(trained.arrays(), tmp_path / "text.onnx")
    opened = session(tmp_path / "text.onnx")
    names = [entry.name for entry in opened.get_outputs()]
    state = {e.name: np.zeros(e.shape, np.float32) for e in opened.get_inputs()}
    found = []
    for token in tokens[0, :20].tolist():
        state["symbol"] = np.eye(len(SYMBOLS), dtype=np.float32)[None, token]
        results = dict(zip(names, opened.run(None, state), strict=True))
        state |= {before: results[after] for before, after in STATES.items()}
        found.append(results["scores"][0])
    with torch.no_grad():
        wanted = trained(tokens[:, :20])[0].numpy()
    np.testing.assert_allclose(np.stack(found), wanted, rtol=0.02, atol=0.02)  # float16 weights
