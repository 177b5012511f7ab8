# SPDX-License-Identifier: Apache-2.0
"""The proof: an artifact executed on symbols, and its outputs compared with the network's.

In:   a network; artifacts.
Out:  Proof.of(artifact): a ProofVerdict.
Next: commands/prove.py prints it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from loadstone.artifact.format import Artifact, BufferView, DataType, HostStep
from loadstone.errors import EncodingError
from loadstone.prove.compiled import CompiledArtifact, ProgramOfProof
from loadstone.prove.definition import TAKEN, Definition
from loadstone.prove.fingerprints import Integers
from loadstone.prove.host_steps import HostSteps
from loadstone.prove.machine import SymbolMachine
from loadstone.prove.memory import NOBODY, SymbolDram, flipped
from loadstone.prove.network import ModelNetwork
from loadstone.prove.operators.ends import real_bytes
from loadstone.prove.tokens import Tokens
from loadstone.prove.values import CONSTANTS, Values
from loadstone.prove.verdict import NotProved, ProofVerdict, Status, Unsupported
from loadstone.prove.witness import StoredSymbols, witness

__all__ = ["ERROR_BITS", "Proof"]

#: The probability that what is called proved is not is below 2^-60.
ERROR_BITS = 60
_TOO_MANY = "so many sums that points at random say nothing of them: divide the model"
#: Two sums are taken for multiples of each other by chance with a probability below 2^-128, two
#: sums of products with one below 2^-124 (fingerprints.py has the argument).
_PAIR_BITS, _BITS_OF_PRODUCTS = 128, 4


class Proof:
    """Of one network, for any number of artifacts: the network is stated once."""

    def __init__(self, network: ModelNetwork, tolerance: int = 0) -> None:
        """tolerance: by how many levels each element may differ from the network's function of
        what the artifact has before it. Raises Unsupported for an operator that a proof does not
        know."""
        self.network = network
        self.values = Values(tolerance)
        self.definition = Definition(self.values, network)
        self.definition.state()

    @staticmethod
    def attempt(network: ModelNetwork, artifact: Artifact, tolerance: int = 0) -> ProofVerdict:
        """What can be said of one artifact, and of its network. A proof whose error is not below
        2^-60 is made again with other primes: both err together with the product of their
        probabilities."""
        bits = 0
        while True:
            try:
                verdict = Proof(network, tolerance).of(artifact)
            except Unsupported as error:
                return ProofVerdict.unsupported(str(error), tolerance)
            bits += verdict.error_bits
            if verdict.status is not Status.PROVED or bits >= ERROR_BITS:
                return replace(verdict, error_bits=bits)
            if verdict.error_bits <= 0:
                return replace(verdict, status=Status.UNSUPPORTED, reason=_TOO_MANY)

    def of(self, artifact: Artifact) -> ProofVerdict:
        """What can be said of an artifact."""
        run = _Run(self, CompiledArtifact(artifact))
        try:
            return self._answer(run)
        except RecursionError:  # a loop that applies one operation again and again to its result
            reason = f"{run.where}a byte is a function of too many steps, one applied to the other"
            return self._verdict(Status.NOT_PROVED, reason, run)

    def _answer(self, run: _Run) -> ProofVerdict:
        try:
            reason = run.execute() or run.compared()
        except Unsupported as error:
            return self._verdict(Status.UNSUPPORTED, str(error), run)
        except (NotProved, EncodingError) as error:
            return self._verdict(Status.NOT_PROVED, f"{run.where}{error}{run.cause()}", run)
        return self._verdict(Status.NOT_PROVED if reason else Status.PROVED, reason, run)

    def _verdict(self, status: Status, reason: str, run: _Run) -> ProofVerdict:
        equality, near = self.values.equality, self.values.near
        return ProofVerdict(
            status,
            reason,
            operators=len(self.network.operators),
            steps=run.steps,
            symbols=self.values.symbol_count - CONSTANTS,
            equalities={
                "at the steps of the network's function": equality.at_steps,
                "and at the ends of pieces": equality.by_pieces,
                "on every value": equality.value_by_value,
                **({"and differ by a level": near.count} if near.tolerance else {}),
            },
            tolerance=near.tolerance,
            error_bits=self._error_bits(),
        )

    def _error_bits(self) -> int:
        pair_bits = _PAIR_BITS - _BITS_OF_PRODUCTS * (self.values.degree - 1)
        return math.floor(pair_bits - 2 * math.log2(max(self.values.looked_for, 1)) + 1)


class _Run:
    """One artifact, step by step."""

    def __init__(self, proof: Proof, compiled: CompiledArtifact) -> None:
        self._values, self._definition = proof.values, proof.definition
        self._network, self._compiled = proof.network, compiled
        self.stores: list[StoredSymbols] = []
        self.where = ""
        self.steps = 0
        self._dram = SymbolDram()
        self._by_host: list[Integers] = []

    def execute(self) -> str:
        """Executes all steps; what is wrong with the ends of the artifact, or ""."""
        inputs, wanted = self._compiled.inputs, self._network.inputs
        if wrong := _other_tensors("inputs", [t.elements for t in inputs], self._sizes(wanted)):
            return wrong
        self._values.begin()
        self._dram = self._compiled.dram()
        for tensor, number in zip(inputs, wanted, strict=True):
            symbols = self._definition.elements.symbols(number).reshape(-1)
            symbols = self._as_bytes(symbols, tensor, number)
            place = np.arange(tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes)
            self._dram.write(tensor.region, place, symbols, "the caller", NOBODY)
        host = HostSteps(self._values, self._definition.rows, self._dram)
        self._by_host = host.stored
        for step in self._compiled.steps():
            if isinstance(step, HostStep):
                host.run(
                    step, self._compiled.tensors(step.inputs), self._compiled.tensors(step.outputs)
                )
            else:
                self._program(step)
        outputs = self._compiled.outputs
        sizes = [t.elements for t in outputs]
        return _other_tensors("outputs", sizes, self._sizes(self._network.outputs))

    def _as_bytes(self, symbols: Integers, tensor: BufferView, number: int) -> Integers:
        """The bytes of elements (n,) as the caller sees them; both sides have them of one type."""
        held, wanted = tensor.dtype.name.lower(), self._network.tensors[number].dtype
        if held != wanted:
            raise NotProved(f"the artifact has {tensor.name} of {held}, the network of {wanted}")
        if tensor.dtype not in (DataType.INT8, DataType.UINT8):
            return real_bytes(self._definition.rows, symbols, tensor.dtype.size_bytes)
        return flipped(symbols) if tensor.dtype == DataType.UINT8 else symbols

    def _sizes(self, numbers: Sequence[int]) -> list[int]:
        return [math.prod(self._network.tensors[k].shape) for k in numbers]

    def _program(self, program: ProgramOfProof) -> None:
        machine = SymbolMachine(self._values, program.config, self._dram)
        tokens = Tokens(self._compiled.cells(program.config))
        for number, instruction in enumerate(program.instructions):
            self.where = f"program {program.name}, instruction {number}: "
            access = machine.run(instruction, number)
            tokens.step(instruction, access)
            if access.stored is not None:
                self.stores.append(StoredSymbols(program.name, number, access.stored))
        self.where = f"program {program.name}: "
        tokens.end()
        self.where = ""
        self.steps += machine.steps

    def compared(self) -> str:
        """Which outputs are not the network's, and why; "" where all are."""
        wrong = []
        for tensor, number in zip(self._compiled.outputs, self._network.outputs, strict=True):
            place = np.arange(tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes)
            symbols = self._dram.read(tensor.region, place, "the caller")
            wanted = self._definition.elements.symbols(number).reshape(-1)
            equal = symbols == self._as_bytes(wanted, tensor, number)
            differ = np.flatnonzero(~equal.reshape(len(wanted), -1).all(1))
            if len(differ):
                wrong.append(
                    f"output {self._network.tensors[number].name}: {len(differ)} of {len(wanted)} "
                    f"elements, the first {differ[0]}"
                )
        if not wrong:
            return ""
        return f"{'; '.join(wrong)}{self.cause()}"

    def cause(self) -> str:
        """The first operator of which a device never stored an element, but another function of the
        element's sum; else the first of which it never stored one."""
        first_missing = ""
        stored = np.zeros(self._values.symbol_count, bool)
        for store in self.stores:
            stored[store.symbols] = True
        for made in self._by_host:
            stored[made] = True
        elements = self._definition.elements
        for operator in self._network.operators:
            if operator.kind in TAKEN:
                continue  # the host stores it
            symbols: Integers = elements.symbols(operator.outputs[0]).reshape(-1)
            missing = np.flatnonzero((symbols >= CONSTANTS) & ~stored[symbols])
            if not len(missing):
                continue
            strange = missing[self._values.has_strange(symbols[missing])]
            first = int(strange[0]) if len(strange) else int(missing[0])
            text = (
                f". First at {operator.where}, element {first}, one of {len(missing)} that are "
                "missing: "
            )
            if len(strange):
                return text + witness(self._values, int(symbols[first]), self.stores)
            first_missing = first_missing or f"{text}no byte that was stored is of its sum"
        return first_missing


def _other_tensors(what: str, held: Sequence[int], wanted: Sequence[int]) -> str:
    if list(held) == list(wanted):
        return ""
    return f"the artifact has {what} of {list(held)} elements, the network of {list(wanted)}"
