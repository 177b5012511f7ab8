# SPDX-License-Identifier: Apache-2.0
"""Mutants of artifacts, held against a proof and against the simulator: none may be proved that the
simulator shows different.

In:   models, devices, how many mutants, a seed.
Out:  how many ended how: what the proof said, what the simulator showed.
Next: test_proof_campaign.py runs a slice of it.

    nice .venv/bin/python -m tests.proof_campaign MODEL ... --target vtaq-1x16x16 --mutants 10000

Each operator of a model is a network of its own, so that a mutant does not wait for a proof of all
the others. A mutant is a bit of a stream, a field of an instruction, two instructions swapped, one
dropped, a token less, a bit of constants or micro-ops, or a constant one off. The simulator runs
each with random inputs, and with the ends of their type. "Not proved, equal" is where a proof beats
tests.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_onnx import read_onnx
from loadstone.prove.read_tflite import read_tflite
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.artifact_mutants import Mutant, mutants

__all__ = ["Campaign", "compiled_artifact", "layers", "network_of", "report"]

Array = NDArray[Any]
#: Mutants of a network at a time; inputs that come before the others: most mutants differ on these.
BATCH, FEW = 50, 32
#: Of processor time, for the proof of one mutant.
SECONDS = 10
#: Of time that passes, on a busy machine, until a mutant counts as hung.
HANG_SECONDS = 60


def network_of(data: bytes, name: str) -> ModelNetwork:
    """The network of a model file."""
    return read_tflite(data, name) if data[4:8] == b"TFL3" else read_onnx(data, name)


def layers(model: bytes) -> list[tuple[str, bytes]]:
    """The convolutions, dense layers and additions of a TFLite model, each as a model. Of pictures
    what a kernel and two steps of it take is left: edges, and what lies between."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    found: list[tuple[str, bytes]] = []
    kinds = vars(schema.BuiltinOperator)
    wanted = {kinds[k]: k for k in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD")}
    for number in range(len(schema.ModelT.InitFromPackedBuf(model, 0).subgraphs[0].operators)):
        one = schema.ModelT.InitFromPackedBuf(model, 0)
        graph, codes = one.subgraphs[0], one.operatorCodes
        operator = graph.operators[number]
        code = codes[operator.opcodeIndex]
        kind = wanted.get(max(code.builtinCode, code.deprecatedBuiltinCode))
        if kind is None:
            continue
        held = [t for t in operator.inputs if t >= 0]
        data = [one.buffers[graph.tensors[t].buffer].data for t in held]
        _crop(operator.builtinOptions, [graph.tensors[t] for t in (*held, *operator.outputs)])
        graph.operators, graph.outputs = [operator], operator.outputs
        graph.inputs = [t for t, d in zip(held, data, strict=True) if d is None or not len(d)]
        one.signatureDefs, one.metadata = None, None
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(one.Pack(builder), b"TFL3")
        found.append((f"{kind} {number}", bytes(builder.Output())))
    return found


def _crop(options: Any, tensors: Sequence[Any]) -> None:
    """Of an operator: the input's and the output's height and width, where it pads itself."""
    if any(len(tensor.shape) != 4 for tensor in (tensors[0], tensors[-1])):
        return
    if (padding := getattr(options, "padding", None)) is None:  # of two inputs, without a kernel
        for tensor in tensors:
            tensor.shape = [1, *(min(4, n) for n in tensor.shape[1:3]), tensor.shape[3]]
    elif padding == 0:  # the output has an element for each step
        for tensor in (tensors[0], tensors[-1]):
            tensor.shape = list(tensor.shape)
        for axis, step in ((1, options.strideH), (2, options.strideW)):
            size = min(tensors[0].shape[axis], tensors[1].shape[axis] + 2 * step)
            tensors[0].shape[axis], tensors[-1].shape[axis] = size, -(-size // step)


def _end(*_: object) -> None:
    raise TimeoutError


class Campaign:
    """Counts (kind, what the proof said, what the simulator showed); `wrong` names mutants that
    were proved and compute something else."""

    def __init__(self, model: bytes, name: str, device: str, inputs: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.config = load_config(device)
        self.network = network_of(model, name)
        self.artifact = compiled_artifact(model, name, device)
        self.proof = Proof(self.network)
        verdict = self.proof.of(self.artifact)
        assert verdict.status.name == "PROVED", verdict.reason
        self.inputs = self._inputs(inputs)
        wanted = self._simulated(self.artifact, self.inputs)
        assert wanted is not None
        self.wanted = wanted
        self.ends: Counter[tuple[str, str, str]] = Counter()
        self.wrong: list[str] = []

    def _inputs(self, count: int) -> list[Array]:
        """Random levels; the first samples are the ends of their type."""
        drawn = []
        for index in self.artifact.inputs:
            tensor = self.artifact.tensors[index]
            limits = np.iinfo(tensor.dtype.numpy)
            shape = (count, tensor.shape[0] // self.artifact.samples, *tensor.shape[1:])
            array = self.rng.integers(
                limits.min, limits.max, shape, tensor.dtype.numpy, endpoint=True
            )
            array[:2] = np.reshape([limits.min, limits.max], (2,) + (1,) * (len(shape) - 1))[:count]
            drawn.append(array)
        return drawn

    def _simulated(self, artifact: Artifact, inputs: Sequence[Array]) -> list[Array] | None:
        """Outputs; None where the runtime refuses the artifact, or the simulator stops."""
        try:
            device = OpenedDevice("sim", "", self.config)
            with device, device.load(artifact, hang_seconds=HANG_SECONDS) as session:
                return session.run(list(inputs))
        except LoadstoneError:
            return None

    def go(self, count: int) -> None:
        """So many mutants more."""
        for _, mutant in zip(range(count), self._mutants(), strict=False):
            said = self._said(mutant.artifact)
            showed = self._showed(mutant.artifact)
            self.ends[mutant.how, said, showed] += 1
            if (said, showed) == ("proved", "different") or said == "broken":
                self.wrong.append(f"{mutant.how}: {mutant.what}: {said} and {showed}")

    def _mutants(self) -> Iterator[Mutant]:
        return mutants(self.artifact, self.config, self.rng)

    def _said(self, artifact: Artifact) -> str:
        """What the proof says of it."""
        signal.signal(signal.SIGVTALRM, _end)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return self.proof.of(artifact).status.name.lower().replace("_", " ")
        except LoadstoneError:  # no sound artifact
            return "refused"
        except TimeoutError:
            self.proof = Proof(self.network)
            return "too slow"
        except Exception:  # the proof's own mistake: no answer
            traceback.print_exc(limit=-2)
            self.proof = Proof(self.network)
            return "broken"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _showed(self, artifact: Artifact) -> str:
        """What the simulator shows: first with a few of the inputs, then with all."""
        for count in (FEW, len(self.inputs[0])):
            got = self._simulated(artifact, [array[:count] for array in self.inputs])
            if got is None:
                return "stopped"
            if any(not np.array_equal(a, b[:count]) for a, b in zip(got, self.wanted, strict=True)):
                return "different"
        return "equal"


_COLUMNS = [
    (said, saw) for said in ("not proved", "proved") for saw in ("different", "stopped", "equal")
]


def report(ends: Mapping[tuple[str, str, str], int], inputs: int) -> str:
    """A table: a row for each kind of mutant, in columns what was said and seen. What the reader of
    artifacts refuses, what no proof covers and what takes it too long counts as not proved."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for (how, said, saw), n in ends.items():
        counts[how, said if said == "proved" else "not proved", saw] += n
    rows = [f"{'':28}{'not proved':>30}{'proved':>30}"]
    rows.append(f"{'':28}" + f"{'different':>10}{'stopped':>10}{'equal':>10}" * 2)
    kinds = sorted({how for how, _, _ in counts})
    for how in [*kinds, "all"]:
        numbers = [
            sum(n for (h, *end), n in counts.items() if how in (h, "all") and tuple(end) == column)
            for column in _COLUMNS
        ]
        rows.append(f"{how:28}" + "".join(f"{n:10,}" for n in numbers))
    wrong, missed = (sum(n for (_, *e), n in counts.items() if e == end) for end in _TOLD)
    slow = sum(n for (_, said, _), n in ends.items() if said == "too slow")
    rows.append(
        f"{sum(counts.values()):,} mutants, {wrong} proved and different; {missed} not proved and "
        f"equal on {inputs} inputs; {slow} without an answer in {SECONDS} seconds"
    )
    return "\n".join(rows)


_TOLD = (["proved", "different"], ["not proved", "equal"])


def compiled_artifact(model: bytes, name: str, device: str) -> Artifact:
    """What the compiler makes of the bytes of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(model)
        return compile_model(path, device).artifact


def main() -> int:
    """Prints the table after each batch; 1 when a mutant was proved that is different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--target", nargs="+", default=["vtaq-1x16x16"])
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, metavar="BATCH", help="continue with it")
    args = parser.parse_args()
    networks = [
        (f"{path.stem}, {name}", data, device)
        for path, device in product(args.models, args.target)
        for name, data in layers(path.read_bytes())
    ]
    ends, wrong = Counter[tuple[str, str, str]](), list[str]()
    for batch in range(args.first, -(-args.mutants // BATCH)):
        name, data, device = networks[batch * 10 % len(networks)]  # all kinds of them early
        campaign = Campaign(data, "layer.tflite", device, args.inputs, args.seed + batch)
        campaign.go(BATCH)
        ends += campaign.ends
        wrong += [f"{name}, {device}: {what}" for what in campaign.wrong]
        print(f"batch {batch}: {name}, {device}: {ends.total():,} mutants", flush=True)
        print(report(ends, args.inputs), flush=True)
    for what in wrong:
        print(f"wrong: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
