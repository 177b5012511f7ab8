# SPDX-License-Identifier: Apache-2.0
"""The second demo's steps: calibrate, quantize, compile, and write text symbol by symbol.

In:   text.onnx, the float transformer that tools/train_text.py trained; ONNX Runtime.
Out:  samples to quantize with; the compiled network, whose caches are states; the text that it
      writes, and the text that ONNX Runtime writes with the same int8 file.
Next: `loadstone demo text` (commands/demo_text.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.compiler import Compiled, quantize
from loadstone.compiler import compile as compile_model
from loadstone.demo.sentences import SYMBOLS, decode, encode, is_sentence, text
from loadstone.errors import LoadstoneError
from loadstone.quantization.pipeline import Quantized
from loadstone.runtime.device import open as open_device

__all__ = [
    "LAYERS",
    "PROMPT",
    "STATES",
    "Written",
    "compiled",
    "network_path",
    "quantized",
    "sentences_right",
    "written_by_onnx_runtime",
    "written_by_simulator",
]

LAYERS = 4
#: Input -> the output that is its next value.
STATES = {
    name: f"{name}_next"
    for name in ("seen", *(f"{kind}_{n}" for n in range(LAYERS) for kind in ("keys", "values")))
}
#: What the network is given before it writes.
PROMPT = ". "
#: The text that it is calibrated with: symbols, the seed, and each how many-th symbol is a sample.
#: The training text has another seed.
_CALIBRATION = (300, 5, 10)

Array: TypeAlias = NDArray[np.float32]
#: From a token to the scores (symbols,) of the next one.
Step: TypeAlias = Callable[[int], Array]


@dataclass(frozen=True)
class Written:
    """text: without the prompt. scores: float32 (symbols written, symbols)."""

    text: str
    scores: Array


def network_path() -> Path:
    """The float network; tools/text_network.py describes its inputs and outputs."""
    return Path(str(files(__package__) / "text.onnx"))


def quantized(scheme: str = "affine") -> Quantized:
    """By text of the same grammar that it was not trained with."""
    count, seed, stride = _CALIBRATION
    session = _session(network_path())
    names = [entry.name for entry in session.get_inputs()]
    kept: list[dict[str, Array]] = []
    step = _onnx_step(session, kept)
    for token in encode(text(count, seed)):
        step(token)
    chosen = kept[stride // 2 :: stride]
    samples = [np.stack([feed[name] for feed in chosen]) for name in names]
    return quantize(network_path(), samples, scheme=scheme)


def compiled(model: Path, target: str) -> Compiled:
    """The int8 file, its caches as states."""
    return compile_model(model, target, states=STATES)


def written_by_simulator(found: Compiled, symbols: int) -> Written:
    """Through the C runtime, one run for each symbol."""
    with open_device("sim") as device, device.load(found.artifact, trust=True) as session:

        def step(token: int) -> Array:
            (scores,) = session.run([_row(token)[None]])
            return np.asarray(scores, np.float32).reshape(-1)

        return _written(step, symbols)


def written_by_onnx_runtime(model: Path, symbols: int) -> Written:
    """What the int8 file means: without graph optimizations."""
    return _written(_onnx_step(_session(model), []), symbols)


def sentences_right(written: str) -> tuple[int, int]:
    """How many of the whole sentences are the grammar's, and how many there are."""
    sentences = written.split(". ")[:-1]
    return sum(map(is_sentence, sentences)), len(sentences)


def _written(step: Step, symbols: int) -> Written:
    """Always the symbol with the highest score."""
    for token in encode(PROMPT):
        scores = step(token)
    every: list[Array] = []
    tokens: list[int] = []
    for _ in range(symbols):
        every.append(scores)
        tokens.append(int(scores.argmax()))
        scores = step(tokens[-1])
    return Written(decode(tokens), np.stack(every))


def _session(model: Path) -> Any:
    """ONNX Runtime, with nothing that changes what the file says."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise LoadstoneError(
            "the demo of text calibrates with ONNX Runtime, which is not installed: pip install "
            "onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _onnx_step(session: Any, kept: list[dict[str, Array]]) -> Step:
    """The caches go from each call to the next one. kept: gets what every call is given."""
    state = {
        entry.name: np.zeros(entry.shape, np.float32)
        for entry in session.get_inputs()
        if entry.name in STATES
    }
    names = [entry.name for entry in session.get_outputs()]

    def step(token: int) -> Array:
        feed = {**state, "symbol": _row(token)}
        kept.append(feed)
        found = dict(zip(names, session.run(None, feed), strict=True))
        for before, after in STATES.items():
            state[before] = found[after]
        return np.asarray(found["scores"], np.float32).reshape(-1)

    return step


def _row(token: int) -> Array:
    """(1, symbols): 1 at the token."""
    row = np.zeros((1, len(SYMBOLS)), np.float32)
    row[0, token] = 1
    return row
